// This thread's time on the processor, and the spread of several measurements of it.
#pragma once

#include <time.h>

#include <algorithm>
#include <vector>

namespace berth::tool {

[[nodiscard]] inline double thread_seconds() noexcept {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

// All zero if nothing was measured.
[[nodiscard]] inline spread spread_of(std::vector<double> measured) {
  if (measured.empty()) return {};
  std::ranges::sort(measured);
  return {measured[measured.size() / 2], measured.front(), measured.back()};
}

}  // namespace berth::tool
