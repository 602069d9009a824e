// A matrix-vector product that packs x and y, as a BLAS does for strided vectors. It is the same code around the same
// kernel. Its buffer (m + n + 16 doubles, OpenBLAS's request) comes from scratch, from the macro, and from malloc.
// Above n = 120 it exceeds the macro's limit of 2048 bytes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "berth/scratch/scratch.hpp"
#include "min_of_batches.hpp"
#include "stack_macro.hpp"

namespace {

struct product {
  std::size_t n;
  const double* a;  // n x n, by columns
  const double* x;  // every second element
  double* y;        // likewise
};

// x is not const: gcc 12 would call it uninitialised if n may be 0.
[[gnu::noinline]] void kernel(std::size_t n, const double* __restrict a, double* __restrict x, double* __restrict y) {
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = 0; i < n; ++i) y[i] += a[j * n + i] * x[j];
}

// All variants lay x and y out alike: y from the buffer's start, x behind it.
inline void multiply(const product& p, double* buffer) {
  double* y = buffer;
  double* x = buffer + (p.n + 7) / 8 * 8;
  for (std::size_t i = 0; i < p.n; ++i) x[i] = p.x[2 * i];
  for (std::size_t i = 0; i < p.n; ++i) y[i] = p.y[2 * i];
  kernel(p.n, p.a, x, y);
  for (std::size_t i = 0; i < p.n; ++i) p.y[2 * i] = y[i];
}

[[gnu::noinline]] void with_scratch(const product& p) {
  berth::scratch<double> buffer(2 * p.n + 16);
  multiply(p, buffer.data());
}

[[gnu::noinline]] void with_macro(const product& p) {
  BENCH_STACK_ALLOC(2 * p.n + 16, double, buffer);
  multiply(p, buffer);
  BENCH_STACK_FREE(buffer);
}

[[gnu::noinline]] void with_malloc(const product& p) {
  auto* buffer = static_cast<double*>(std::malloc((2 * p.n + 16) * sizeof(double)));
  multiply(p, buffer);
  std::free(buffer);
}

struct row {
  std::size_t n;
  double scratch = 1e300;
  double macro = 1e300;
  double malloc = 1e300;
};

// Alternates, so that disturbances of the machine affect all three.
void measure(row& r) {
  const std::size_t n = r.n;
  auto* a = static_cast<double*>(std::aligned_alloc(64, (n * n + 7) / 8 * 64));
  std::fill(a, a + n * n, 1e-3);
  std::vector<double> x(2 * n, 1.0);
  std::vector<double> y(2 * n, 0.0);
  const product p{n, a, x.data(), y.data()};
  const int calls = static_cast<int>(std::max<std::size_t>(20, 20'000 / (n * n / 8 + 10)));
  for (int turn = 0; turn < 50; ++turn) {
    r.scratch = std::min(r.scratch, bench::min_of_batches([&] { with_scratch(p); }, 4, calls));
    r.macro = std::min(r.macro, bench::min_of_batches([&] { with_macro(p); }, 4, calls));
    r.malloc = std::min(r.malloc, bench::min_of_batches([&] { with_malloc(p); }, 4, calls));
    std::fill(y.begin(), y.end(), 0.0);
  }
  std::free(a);
}

}  // namespace

int main() {
  bench::create_a_thread();
  std::vector<row> rows;
  for (const std::size_t n : {4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 120, 121, 128, 144, 160})
    rows.push_back({n});
  for (int round = 0; round < 12; ++round)
    for (row& r : rows) measure(r);
  std::printf("gemv, ns (least of many batches); ratio: scratch to macro\n%6s %10s %10s %10s %8s\n", "n", "scratch",
              "macro", "malloc", "ratio");
  double worst = 0;
  for (const row& r : rows) {
    std::printf("%6zu %10.1f %10.1f %10.1f %8.3f\n", r.n, r.scratch, r.macro, r.malloc, r.scratch / r.macro);
    worst = std::max(worst, r.scratch / r.macro);
  }
  std::printf("worst ratio %.3f\n", worst);
}
