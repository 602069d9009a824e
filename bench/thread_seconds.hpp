// The calling thread's time on the processor, which other programs on a shared machine disturb least.
#pragma once

#include <time.h>

namespace berth_bench {

inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace berth_bench
