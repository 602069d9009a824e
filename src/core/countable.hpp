// Durations that a user gives, as far as a clock counts.
#pragma once

#include <algorithm>
#include <chrono>

namespace berth::detail {

// None is negative, and none longer than a hundred years: so now + d, and d in nanoseconds, do not overflow.
template <class Duration>
[[nodiscard]] constexpr Duration countable(Duration d) noexcept {
  constexpr std::chrono::hours longest{24 * 36525};
  return d < longest ? std::max(d, Duration::zero()) : std::chrono::duration_cast<Duration>(longest);
}

}  // namespace berth::detail
