// What the alignment of a temporary is worth to a kernel of 512-bit vectors: the same code on the same data, only the
// scratch starts 0, 32 (OpenBLAS's alignment) or 16 bytes (malloc's) past a multiple of 64.
#include <cstdio>

#include "berth/scratch/scratch.hpp"
#include "min_of_batches.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace {

constexpr std::size_t largest = 96;
alignas(64) double matrix[largest * largest];
alignas(64) double vector[largest];

// y += A x by columns, y in the scratch: a load and a store of it for each column, as a gemv of a column-major matrix.
[[gnu::noinline, gnu::target("avx512f")]] void multiply(std::size_t n, double* y) {
  for (std::size_t j = 0; j < n; ++j) {
    const __m512d x = _mm512_set1_pd(vector[j]);
    for (std::size_t i = 0; i < n; i += 8)
      _mm512_storeu_pd(y + i, _mm512_fmadd_pd(_mm512_load_pd(matrix + j * n + i), x, _mm512_loadu_pd(y + i)));
  }
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx512f")) {
    std::printf("this processor has no 512-bit vectors\n");
    return 0;
  }
  std::printf("gemv, y in the scratch; ns (least of many batches); ratio: to 64-byte alignment\n");
  std::printf("%4s %8s %8s %6s %8s %6s\n", "n", "64 B", "32 B", "ratio", "16 B", "ratio");
  for (const std::size_t n : {std::size_t{32}, std::size_t{64}, largest}) {
    berth::scratch<double> buffer(largest + 8);
    for (double& v : buffer) v = 0;
    double ns[3];
    const std::size_t offsets[3] = {0, 4, 2};  // doubles
    for (int k = 0; k < 3; ++k)
      ns[k] = bench::min_of_batches([&] { multiply(n, buffer.data() + offsets[k]); }, 3000, 30);
    std::printf("%4zu %8.1f %8.1f %6.2f %8.1f %6.2f\n", n, ns[0], ns[1], ns[1] / ns[0], ns[2], ns[2] / ns[0]);
  }
}

#else

int main() {
  std::printf("only for x86-64\n");
}

#endif
