/* The macro assigns to a variable, as in OpenBLAS's interface functions. */
#define MAX_STACK_ALLOC 0 /* OpenBLAS's value for no buffer on the stack */
#include "berth/stack_alloc.h"
#include "openblas_kernels.h"

double sum_in_own_form(uint64_t n) {
  double* buffer;
  STACK_ALLOC(n, double, buffer);
  if (buffer == NULL) return -1;
  for (uint64_t i = 0; i < n; ++i) buffer[i] = 1;
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += buffer[i];
  STACK_FREE(buffer);
  return sum;
}

double* made_here(uint64_t n) {
  double* buffer;
  STACK_ALLOC(n, double, buffer);
  return buffer;
}

void give_back(double* buffer) {
  STACK_FREE(buffer);
}

const int forgotten_line = __LINE__ + 5;
void forget(int buffers, uint64_t n) {
  for (int i = 0; i < buffers; ++i) {
    double* buffer;
    /* nothing frees it */
    STACK_ALLOC(n, double, buffer);
    if (buffer != NULL) buffer[0] = 1;
  }
}
