// This thread's time on the processor.
#pragma once

#include <time.h>

namespace berth::tool {

[[nodiscard]] inline double thread_seconds() noexcept {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace berth::tool
