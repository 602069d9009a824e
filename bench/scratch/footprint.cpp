// The stack that a temporary of n bytes takes, and the heap calls of a workload that repeats.
//
// The stack is painted before the call; overwritten paint was used. The figure of the same function without a temporary
// is subtracted. A replacement of malloc counts the heap calls (glibc).
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "berth/scratch/scratch.hpp"
#include "min_of_batches.hpp"
#include "stack_macro.hpp"

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {
std::size_t heap_calls = 0;
}

extern "C" void* malloc(std::size_t size) {
  ++heap_calls;
  return __libc_malloc(size);
}
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
  ++heap_calls;
  return __libc_memalign(alignment, size);
}

namespace {

[[gnu::noinline]] void with_nothing(std::size_t) {}

template <std::size_t InlineBytes>
[[gnu::noinline]] void with_scratch(std::size_t n) {
  berth::scratch<char, InlineBytes> s(n);
  std::memset(s.data(), 0, n);
  bench::touch(s.data());
}

[[gnu::noinline]] void with_macro(std::size_t n) {
  BENCH_STACK_ALLOC(n, char, p);
  std::memset(p, 0, n);
  bench::touch(p);
  BENCH_STACK_FREE(p);
}

// An unbounded array on the stack, as Eigen's macro has up to 128 KiB.
[[gnu::noinline]] void with_array(std::size_t n) {
  char p[n];
  std::memset(p, 0, n);
  bench::touch(p);
}

// The end of the stack for the call made from here; a fresh deep frame below it is painted.
constexpr std::size_t painted = 256 << 10;

[[gnu::noinline]] std::uintptr_t paint() {
  unsigned char area[painted];
  std::memset(area, 0xA7, sizeof area);
  bench::touch(area);
  auto low = reinterpret_cast<std::uintptr_t>(area);
  asm("" : "+r"(low));  // clang would warn of an address that leaves its frame, which is intended here
  return low;
}

[[gnu::noinline]] std::size_t unpainted(std::uintptr_t low) {
  const auto* p = reinterpret_cast<const volatile unsigned char*>(low);
  std::size_t i = 0;
  while (i < painted && p[i] == 0xA7) ++i;
  return painted - i;
}

std::size_t stack_of(void (*use)(std::size_t), std::size_t n) {
  use(n);  // excludes the arena's growth
  const std::uintptr_t low = paint();
  use(n);
  return unpainted(low);
}

void stack_table() {
  constexpr std::size_t sizes[] = {64, 512, 1024, 2048, 16384, 65536};
  std::printf("%-28s", "stack used, bytes");
  for (const std::size_t n : sizes) std::printf("%8zu", n);
  std::printf("  bytes asked for\n");
  const std::size_t base = stack_of(with_nothing, 0);
  const auto row = [&](const char* name, void (*use)(std::size_t)) {
    std::printf("%-28s", name);
    for (const std::size_t n : sizes) std::printf("%8zu", stack_of(use, n) - base);
    std::printf("\n");
  };
  row("scratch (arena only)", with_scratch<0>);
  row("scratch (512 inline)", with_scratch<512>);
  row("scratch (2048 inline)", with_scratch<2048>);
  row("macro like STACK_ALLOC", with_macro);
  row("array on the stack", with_array);
}

void recurse(std::mt19937& random, int depth) {
  berth::scratch<float> a(random() % 30'000);
  bench::touch(a.data());
  for (int child = 0; child < 2 && depth > 0; ++child) recurse(random, depth - 1);
  berth::scratch<double, 0> b(random() % 100);
  bench::touch(b.data());
}

void heap_table() {
  std::printf("\nheap calls in each repeat of a recursive workload of 510 temporaries:");
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::mt19937 random{7};
    const std::size_t before = heap_calls;
    recurse(random, 7);
    std::printf(" %zu", heap_calls - before);
  }
  std::printf("\n");
}

}  // namespace

int main() {
  bench::create_a_thread();
  stack_table();
  heap_table();
}
