#include "uses.hpp"

#include <cstdlib>

#include "berth/scratch/scratch.hpp"
#include "min_of_batches.hpp"
#include "stack_macro.hpp"

namespace {

void both_ends(std::byte* p, std::size_t n) {
  bench::touch(p);
  p[0] = std::byte{1};
  p[n - 1] = std::byte{2};
  bench::touch(p);
}

[[gnu::noinline]] void empty(std::size_t n) {
  bench::touch(reinterpret_cast<void*>(n));
}

template <std::size_t InlineBytes>
[[gnu::noinline]] void with_scratch(std::size_t n) {
  berth::scratch<std::byte, InlineBytes> s(n);
  both_ends(s.data(), n);
}

[[gnu::noinline]] void with_macro(std::size_t n) {
  BENCH_STACK_ALLOC(n, std::byte, p);
  both_ends(p, n);
  BENCH_STACK_FREE(p);
}

[[gnu::noinline]] void with_malloc(std::size_t n) {
  auto* p = static_cast<std::byte*>(std::malloc(n));
  both_ends(p, n);
  std::free(p);
}

[[gnu::noinline]] void with_aligned_alloc(std::size_t n) {
  auto* p = static_cast<std::byte*>(std::aligned_alloc(64, n));
  both_ends(p, n);
  std::free(p);
}

template <void (*Use)(std::size_t)>
double ns(std::size_t n) {
  return bench::min_of_batches([n] { Use(n); });
}

}  // namespace

extern "C" const bench::use BENCH_USES[bench::use_count] = {
    {"the call alone", ns<empty>},
    {"scratch (512 inline)", ns<with_scratch<512>>},
    {"scratch (2048 inline)", ns<with_scratch<2048>>},
    {"scratch (arena only)", ns<with_scratch<0>>},
    {"macro like STACK_ALLOC", ns<with_macro>},
    {"malloc", ns<with_malloc>},
    {"aligned_alloc(64)", ns<with_aligned_alloc>},
};
