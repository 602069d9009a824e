// Limits durations from the user to the range of a clock.
#pragma once

#include <algorithm>
#include <chrono>

namespace berth::detail {

// Returns d limited to the range from 0 to a hundred years, so that now + d, and d in nanoseconds, do not overflow.
template <class Duration>
[[nodiscard]] constexpr Duration countable(Duration d) noexcept {
  constexpr std::chrono::hours longest{24 * 36525};
  return d < longest ? std::max(d, Duration::zero()) : std::chrono::duration_cast<Duration>(longest);
}

}  // namespace berth::detail
