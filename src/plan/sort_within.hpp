// Sorting that can be broken off: a million take a tenth of a second.
#pragma once

#include <algorithm>
#include <cstddef>

#include "plan/patience.hpp"

namespace berth::plan {

// Sorts as std::sort, in runs that are then merged. False if the wait ended before: the order is then any. The result
// is that of std::sort if no two are equal.
template <class Iterator, class Less>
[[nodiscard]] bool sort_within(Iterator first, Iterator last, Less less, const patience& wait) {
  constexpr std::ptrdiff_t run = 1 << 16;
  constexpr std::uint64_t looks_a_value = 4, looks_a_merged = 1;
  const std::ptrdiff_t n = last - first;
  for (std::ptrdiff_t at = 0; at < n; at += run) {
    const std::ptrdiff_t end = std::min(n, at + run);
    if (n > run && wait.over(looks_a_value * static_cast<std::uint64_t>(end - at))) return false;
    std::sort(first + at, first + end, less);
  }
  for (std::ptrdiff_t sorted = run; sorted < n; sorted *= 2) {
    for (std::ptrdiff_t at = 0; at + sorted < n; at += 2 * sorted) {
      const std::ptrdiff_t end = std::min(n, at + 2 * sorted);
      if (wait.over(looks_a_merged * static_cast<std::uint64_t>(end - at))) return false;
      std::inplace_merge(first + at, first + at + sorted, first + end, less);
    }
  }
  return true;
}

}  // namespace berth::plan
