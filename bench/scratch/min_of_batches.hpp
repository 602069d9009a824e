// The least time of a call over many batches, in nanoseconds. On a shared machine the minimum repeats to a few
// hundredths of a nanosecond, while means differ by factors.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace bench {

template <class F>
double min_of_batches(F&& call, int batches = 3000, int calls = 1000) {
  using clock = std::chrono::steady_clock;
  double best = 1e300;
  for (int b = 0; b < batches; ++b) {
    const auto from = clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> took = clock::now() - from;
    best = std::min(best, took.count() / calls);
  }
  return best;
}

// Creates a thread. Until then glibc leaves out its atomic operations. Every runtime has threads, so a benchmark
// without any flatters malloc and locks by a factor of two.
inline void create_a_thread() {
  std::thread{[] {}}.join();
}

// The compiler must assume that *p is read and written here.
inline void touch(void* p) {
  asm volatile("" : : "r"(p) : "memory");
}

}  // namespace bench
