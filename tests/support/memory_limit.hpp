// What a program of tests may take, so that a reader that blows up fails its test instead of the machine.
#pragma once

#include <sys/resource.h>

namespace berth::support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

// Beyond `bytes` of memory of its own the process gets std::bad_alloc. Not under a sanitizer, which maps terabytes.
inline void limit_memory(rlim_t bytes) {
  if (sanitized) return;
  const rlimit limit{bytes, bytes};
  (void)setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace berth::support
