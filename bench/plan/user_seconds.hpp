// The user time of this process so far: the measure that a shared machine disturbs least.
#pragma once

#include <sys/resource.h>

namespace berth_bench {

inline double user_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec) + 1e-6 * static_cast<double>(u.ru_utime.tv_usec);
}

}  // namespace berth_bench
