/* The macro declares its buffer, as in the text's listing. */
#define BERTH_STACK_ALLOC_DECLARES
#include "berth/stack_alloc.h"
#include "openblas_kernels.h"

double sum_in_printed_form(uint64_t n) {
  STACK_ALLOC(n, double, buffer);
  if (buffer == NULL) return -1;
  for (uint64_t i = 0; i < n; ++i) buffer[i] = 1;
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += buffer[i];
  STACK_FREE(buffer);
  return sum;
}
