// The sanitizer that a test is built with, g++'s or clang's.
#pragma once

namespace berth::support {

#ifdef __has_feature
#define BERTH_HAS_FEATURE(x) __has_feature(x)
#else
#define BERTH_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || BERTH_HAS_FEATURE(address_sanitizer)
inline constexpr bool address_sanitized = true;
#else
inline constexpr bool address_sanitized = false;
#endif
#if defined(__SANITIZE_THREAD__) || BERTH_HAS_FEATURE(thread_sanitizer)
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif
#undef BERTH_HAS_FEATURE
inline constexpr bool sanitized = address_sanitized || thread_sanitized;

#ifdef BERTH_EMULATED
inline constexpr bool emulated = true;
#else
inline constexpr bool emulated = false;
#endif

// Returns how many of so many made-up cases are tried: a quarter under a sanitizer or an emulator. There each takes ten
// to thirty times as long, and other mistakes are looked for than a wrong answer.
[[nodiscard]] constexpr unsigned cases(unsigned all) {
  return sanitized || emulated ? (all + 3) / 4 : all;
}

}  // namespace berth::support
