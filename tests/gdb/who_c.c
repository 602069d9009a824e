/* A block that a recorder knows, in a program in C that includes recorder.h: the type berth_recorder has debug
 * information there. who_c.cmake asks gdb whose the block is. */
#include <stdlib.h>

#include "berth/pool.h"
#include "berth/recorder.h"

void look_here(const void* at);
__attribute__((noinline)) void look_here(const void* at) {
  __asm__ volatile("" : : "r"(at) : "memory");
}

int main(void) {
  berth_device* device = NULL;
  berth_stream* stream = NULL;
  berth_pool* pool = NULL;
  berth_recorder* recorder = NULL;
  void* live = NULL;
  if (berth_device_open("host", &device) != BERTH_OK || berth_stream_create(device, &stream) != BERTH_OK) return 1;
  if (berth_pool_create(device, NULL, &pool) != BERTH_OK || berth_recorder_create(0, &recorder) != BERTH_OK) return 1;
  if (berth_recorder_start(recorder) != BERTH_OK) return 1;
  if (berth_pool_allocate(pool, 100, stream, &live) != BERTH_OK) return 1;
  look_here(live);
  return 0;
}
