/* A kernel as a C programmer writes it: the sum of the squares of x, by way of a packed copy. */
#include "kernel.h"

#include <string.h>

#include "berth/c/scratch.h"
#include "berth/stack_alloc.h"

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

/* Layers of a network as a C programmer writes them: each reads one buffer and writes the next. Returns the number of
 * bytes that arrived wrong, or -1. */
int ping_pong(size_t layers, size_t bytes) {
  int wrong = 0;
  unsigned char* current = berth_scratch_allocate(bytes, 1);
  if (current == NULL) return -1;
  memset(current, 0, bytes);
  for (size_t layer = 1; layer <= layers; ++layer) {
    unsigned char* next = berth_scratch_allocate(bytes, 1);
    if (next == NULL) {
      berth_scratch_free(current);
      return -1;
    }
    wrong += current[0] != (layer - 1) % 256 || current[bytes - 1] != (layer - 1) % 256;
    memset(next, (int)(layer % 256), bytes);
    berth_scratch_free(current);
    current = next;
  }
  berth_scratch_free(current);
  return wrong;
}

/* The sum of products with the macros that OpenBLAS's kernels have; two buffers in one function, freed in the order
 * they came. */
int sum_of_products(size_t n, const float* x, const float* y, float* sum) {
  float *left, *right;
  STACK_ALLOC(n, float, left);
  if (left == NULL) return -1;
  STACK_ALLOC(n, float, right);
  if (right == NULL) {
    STACK_FREE(left);
    return -1;
  }
  float total = 0;
  for (size_t i = 0; i < n; ++i) left[i] = x[i];
  for (size_t i = 0; i < n; ++i) right[i] = y[i];
  for (size_t i = 0; i < n; ++i) total += left[i] * right[i];
  STACK_FREE(left);
  STACK_FREE(right);
  *sum = total;
  return 0;
}
