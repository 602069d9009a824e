// The best plan so far that has passed verify(). Kept where there are so many buffers that verifying one only after a
// stop would keep the caller waiting.
#pragma once

#include <optional>

#include "berth/plan/plan.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

class verified {
 public:
  // Both have to live as long.
  verified(const problem& p, const patience& wait) : p_{p}, wait_{wait} {}

  // Where it is better than the best, right, and proved so before the wait ends, it is the best from now on. Of few
  // buffers, or where nobody can stop, nothing is kept: there is time to verify the last one.
  void consider(const plan& candidate);

  // After a stop: the best that there is, and if there is none, all buffers one on the other above those pinned, which
  // needs no thought and little time to verify. Nothing where that does not fit one memory or is not right.
  [[nodiscard]] std::optional<plan> take();

  // Whether consider() has accepted just these places.
  [[nodiscard]] bool has(const plan& candidate) const;

  // Whether the buffers are so many that a plan cannot be verified after a stop.
  [[nodiscard]] bool are_many() const noexcept;

 private:
  const problem& p_;
  const patience& wait_;
  std::optional<plan> best_;
};

}  // namespace berth::plan
