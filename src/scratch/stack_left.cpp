#include <cstdint>

#include "berth/scratch/scratch.hpp"

#if defined(__linux__)
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include <algorithm>
#endif

namespace berth {

#if defined(__linux__)

namespace {

struct bounds {
  bool asked = false;
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;  // equal to low: unknown
};

thread_local constinit bounds known;

void ask(bounds& b) noexcept {
  b.asked = true;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* address = nullptr;
  std::size_t size = 0;
  const bool found = pthread_attr_getstack(&attributes, &address, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!found) return;
  b.low = reinterpret_cast<std::uintptr_t>(address);
  b.high = b.low + size;
  // On the process's initial stack, near whose end the system left these bytes: within a page behind it where musl
  // tells the end. In the child of a fork the first thread may be on another.
  constexpr std::uintptr_t page = 4096;
  if (getauxval(AT_RANDOM) - b.low < size + page) {
    // musl reports only what is mapped so far; the limit is what it may grow to.
    rlimit limit{};
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < b.high)
      b.low = std::min(b.low, static_cast<std::uintptr_t>(b.high - limit.rlim_cur));
  }
}

}  // namespace

std::optional<std::size_t> stack_left() noexcept {
  if (!known.asked) ask(known);
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (here - known.low >= known.high - known.low) return std::nullopt;
  return here - known.low;
}

#else

std::optional<std::size_t> stack_left() noexcept {
  return std::nullopt;
}

#endif

}  // namespace berth
