/* Scratch from C, linked by a C compiler: nothing here needs the C++ runtime. */
#include "berth/c/scratch.h"

int main(void) {
  float* w = berth_scratch_allocate(100000, sizeof *w);
  if (w == NULL) return 1;
  w[99999] = 1.0F;
  const int wrong = berth_scratch_statistics_of_thread().blocks != 1;
  berth_scratch_free(w);
  berth_scratch_trim();
  return wrong;
}
