// The best plan so far that has passed verify(). It is kept if buffers are so many that verifying a plan only after a
// stop would keep the caller waiting.
#pragma once

#include <optional>

#include "berth/plan/plan.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

class verified {
 public:
  // Both must outlive this.
  verified(const problem& p, const patience& wait) : p_{p}, wait_{wait} {}

  // Makes the candidate the best one if it is better, right, and verified before the wait ends. Keeps nothing if
  // buffers are few or the wait cannot end: there is time to verify the last plan.
  void consider(const plan& candidate);

  // Returns the best plan after a stop. Without one it stacks all buffers above those pinned, which is quick to make
  // and verify. Returns nothing if that does not fit one memory or is not right.
  [[nodiscard]] std::optional<plan> take();

  // Returns whether consider() has accepted just these places.
  [[nodiscard]] bool has(const plan& candidate) const;

  // Returns whether the buffers are so many that a plan cannot be verified after a stop.
  [[nodiscard]] bool are_many() const noexcept;

 private:
  const problem& p_;
  const patience& wait_;
  std::optional<plan> best_;
};

}  // namespace berth::plan
