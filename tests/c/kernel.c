/* A kernel as a C programmer writes it: the sum of the squares of x, by way of a packed copy. */
#include "kernel.h"

#include "berth/c/scratch.h"

int sum_of_squares(size_t n, const float* x, size_t stride, float* sum) {
  float* packed = berth_scratch_allocate(n, sizeof *packed);
  if (packed == NULL) return -1;
  for (size_t i = 0; i < n; ++i) packed[i] = x[i * stride];
  float total = 0;
  for (size_t i = 0; i < n; ++i) total += packed[i] * packed[i];
  berth_scratch_free(packed);
  *sum = total;
  return 0;
}
