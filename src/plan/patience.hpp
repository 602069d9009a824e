// How long the caller waits: the one place that reads a deadline or the caller's stop.
//
// Every stage that may take longer than some milliseconds is handed the same patience, tells it what it did and ends
// early where it is over: with what it has, or with what needs no further thought (place_in_order() puts the rest on
// top). So a stop is answered within a tenth of a second, wherever the work stands.
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

  // Ends when so many looks have been told: at the same place on every machine.
  [[nodiscard]] static patience of_looks(std::uint64_t looks);

  // Ends with this one, which has to live as long, or when so many looks more have been told: what a stage may cost.
  [[nodiscard]] patience for_looks(std::uint64_t looks) const;
  // More at effort best.
  [[nodiscard]] patience for_looks(std::uint64_t looks, effort work) const {
    return for_looks(work == effort::best ? looks * policy::best_looks_factor : looks);
  }

  // Ends with this one, which has to live as long, or when half of the time until the deadline has passed: what a stage
  // may take whose result is of use only to the next one.
  [[nodiscard]] patience for_half() const;

  // Whether to end now; once it is over it stays so. `looks`: what was done since it was last asked, in steps of some
  // ten nanoseconds. Costs a load, and every `looks_between_readings` a glance at the clock. Of one thread.
  [[nodiscard]] bool over(std::uint64_t looks = policy::looks_between_readings) const;

  // Whether the stop or the deadline ends it now. Counts nothing, so that a stage may ask as often as it likes: what it
  // did it tells over() later. Costs a load, and a glance at the clock if there is a deadline. Of one thread.
  [[nodiscard]] bool is_due() const;

  // How many more looks it may be told.
  [[nodiscard]] std::uint64_t looks_left() const noexcept;

  // Whether it can ever end: there is a stop, a deadline or a limit of looks.
  [[nodiscard]] bool may_end() const noexcept {
    return stop_ != nullptr || until_ || most_looks_ != ~std::uint64_t{0} || (outer_ != nullptr && outer_->may_end());
  }

  // Whether somebody was told that it is over, and so may have ended early.
  [[nodiscard]] bool was_over() const noexcept { return over_; }

  // was_over() of the outermost wait, the caller's, of which this one may be a part.
  [[nodiscard]] bool caller_was_told() const noexcept { return outer_ != nullptr ? outer_->caller_was_told() : over_; }

  [[nodiscard]] std::uint64_t looks() const noexcept { return looks_; }

 private:
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const noexcept;

  const patience* outer_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> until_;
  std::uint64_t most_looks_ = ~std::uint64_t{0};
  // Asking changes nothing for the caller, so that a temporary may stand for "without end".
  mutable std::uint64_t looks_ = 0;
  mutable std::uint64_t next_reading_ = 0;
  mutable bool over_ = false;
};

}  // namespace berth::plan
