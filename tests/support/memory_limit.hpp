// Limits the memory of a program of tests, so that a reader that blows up fails its test instead of the machine.
#pragma once

#include <sys/resource.h>

#include "support/sanitizers.hpp"

namespace berth::support {

// Beyond `bytes` of memory of its own the process gets std::bad_alloc. Not under a sanitizer, which maps terabytes.
inline void limit_memory(rlim_t bytes) {
  if (sanitized) return;
  const rlimit limit{bytes, bytes};
  (void)setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace berth::support
