// Measures the value of a temporary's alignment for a kernel of 512-bit vectors. It is the same code on the same data.
// Only the scratch starts 0, 32 (OpenBLAS's alignment) or 16 bytes (malloc's) past a multiple of 64.
#include <cstdio>

#include "berth/scratch/scratch.hpp"
#include "min_of_batches.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace {

constexpr std::size_t largest = 96;
alignas(64) double matrix[largest * largest];
alignas(64) double vector[largest];

// y += A x by columns, y in the scratch. One load and one store of it for each column, as in a gemv of a column-major
// matrix.
[[gnu::noinline, gnu::target("avx512f")]] void multiply(std::size_t n, double* y) {
  for (std::size_t j = 0; j < n; ++j) {
    const __m512d x = _mm512_set1_pd(vector[j]);
    for (std::size_t i = 0; i < n; i += 8)
      _mm512_storeu_pd(y + i, _mm512_fmadd_pd(_mm512_load_pd(matrix + j * n + i), x, _mm512_loadu_pd(y + i)));
  }
}

// The dot product of two scratches in the first-level cache: only two loads for each operation.
[[gnu::noinline, gnu::target("avx512f")]] void dot(std::size_t n, const double* x, const double* y) {
  __m512d sum[4] = {};
  for (std::size_t i = 0; i < n; i += 32)
    for (std::size_t k = 0; k < 4; ++k)
      sum[k] = _mm512_fmadd_pd(_mm512_loadu_pd(x + i + 8 * k), _mm512_loadu_pd(y + i + 8 * k), sum[k]);
  bench::touch(sum);
}

constexpr std::size_t offsets[3] = {0, 4, 2};  // in doubles: 64, 32 and 16 bytes

void print(const char* kernel, std::size_t n, const double (&ns)[3]) {
  std::printf("%-6s %5zu %8.1f %8.1f %6.2f %8.1f %6.2f\n", kernel, n, ns[0], ns[1], ns[1] / ns[0], ns[2],
              ns[2] / ns[0]);
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx512f")) {
    std::printf("this processor has no 512-bit vectors\n");
    return 0;
  }
  std::printf("temporaries in scratch; ns (least of many batches); ratio: to 64-byte alignment\n");
  std::printf("%-6s %5s %8s %8s %6s %8s %6s\n", "kernel", "n", "64 B", "32 B", "ratio", "16 B", "ratio");
  for (const std::size_t n : {std::size_t{32}, std::size_t{64}, largest}) {
    berth::scratch<double> y(largest + 8);
    for (double& v : y) v = 0;
    double ns[3];
    for (int k = 0; k < 3; ++k) ns[k] = bench::min_of_batches([&] { multiply(n, y.data() + offsets[k]); }, 3000, 30);
    print("gemv", n, ns);
  }
  for (const std::size_t n : {std::size_t{256}, std::size_t{512}, std::size_t{1024}}) {
    berth::scratch<double> x(n + 8);
    berth::scratch<double> y(n + 8);
    for (double& v : x) v = 1;
    for (double& v : y) v = 1;
    double ns[3];
    for (int k = 0; k < 3; ++k)
      ns[k] = bench::min_of_batches([&] { dot(n, x.data() + offsets[k], y.data() + offsets[k]); }, 3000, 100);
    print("dot", n, ns);
  }
}

#else

int main() {
  std::printf("only for x86-64\n");
}

#endif
