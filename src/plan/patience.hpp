// How long the caller waits: the one place that reads a deadline or the caller's stop.
//
// Every stage of more than some milliseconds gets the same patience, reports its work to it and ends early once it is
// over. It then returns its result so far, or a trivial one (place_in_order() puts the rest on top). A stop is thus
// answered within a tenth of a second at any stage.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "berth/plan/solve.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

class patience {
 public:
  patience() = default;  // without end

  // Counts the deadline from now. `o.stop` has to live as long.
  explicit patience(const options& o);

  // Returns a patience that ends after so many looks: at the same place on every machine.
  [[nodiscard]] static patience of_looks(std::uint64_t looks);

  // Returns a patience that ends with this one, or after so many more looks: the limit of a stage. This one must
  // outlive it.
  [[nodiscard]] patience for_looks(std::uint64_t looks) const;
  // Allows more at effort best.
  [[nodiscard]] patience for_looks(std::uint64_t looks, effort work) const {
    return for_looks(work == effort::best ? looks * policy::best_looks_factor : looks);
  }

  // Returns a patience that ends with this one, or when half of the time until the deadline has passed. It is for a
  // stage whose result only serves the next stage. This one must outlive it.
  [[nodiscard]] patience for_half() const;

  // Returns whether to end now; once it is over it stays so. `looks`: the work since the last call, in steps of some
  // ten nanoseconds. Costs a load, and every `looks_between_readings` a reading of the clock. For one thread.
  [[nodiscard]] bool over(std::uint64_t looks = policy::looks_between_readings) const;

  // Returns whether the stop or the deadline ends it now. Counts nothing, so a stage may ask at any time and report its
  // work to over() later. Costs a load, and a reading of the clock if there is a deadline. For one thread.
  [[nodiscard]] bool is_due() const;

  // Returns how many more looks may be reported.
  [[nodiscard]] std::uint64_t looks_left() const noexcept;

  // Returns whether it can ever end: there is a stop, a deadline or a limit of looks.
  [[nodiscard]] bool may_end() const noexcept {
    return stop_ != nullptr || until_ || most_looks_ != ~std::uint64_t{0} || (outer_ != nullptr && outer_->may_end());
  }

  // Returns whether over() has returned true, so that a stage may have ended early.
  [[nodiscard]] bool was_over() const noexcept { return over_; }

  // Returns was_over() of the outermost wait, the caller's, which may contain this one.
  [[nodiscard]] bool caller_was_told() const noexcept { return outer_ != nullptr ? outer_->caller_was_told() : over_; }

  [[nodiscard]] std::uint64_t looks() const noexcept { return looks_; }

 private:
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const noexcept;

  const patience* outer_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> until_;
  std::uint64_t most_looks_ = ~std::uint64_t{0};
  // Asking does not change a caller's object, so that a temporary may stand for "without end".
  mutable std::uint64_t looks_ = 0;
  mutable std::uint64_t next_reading_ = 0;
  mutable bool over_ = false;
};

}  // namespace berth::plan
