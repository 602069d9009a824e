/* A pool over memory of your own: the functions of mmap_backend.h, and no other change. */
#define _GNU_SOURCE /* for memfd_create() */
#include <stdio.h>

#include "berth/pool.h"
#include "mmap_backend.h"

static int failed(const char* what) {
  printf("%s: %s\n", what, berth_error_text());
  return 1;
}

int main(void) {
  mmap_memory memory; /* outlives the device */
  berth_backend mine;
  berth_device* device = NULL;
  berth_stream* stream = NULL;
  berth_pool* pool = NULL;
  void* block = NULL;
  berth_pool_statistics now = BERTH_INIT(berth_pool_statistics);
  unsigned char first = 0;

  if (mmap_backend(&memory, 1, &mine) != BERTH_OK) return puts("no memfd"), 1;
  if (berth_device_make(&mine, &device) != BERTH_OK) return failed("device");
  if (berth_stream_create(device, &stream) != BERTH_OK) return failed("stream");
  if (berth_pool_create(device, NULL, &pool) != BERTH_OK) return failed("pool");
  if (berth_pool_allocate(pool, 1 << 20, stream, &block) != BERTH_OK) return failed("allocate");
  if (berth_stream_fill(stream, block, 7, 1 << 20) != BERTH_OK) return failed("fill");
  if (berth_stream_copy(stream, &first, block, 1) != BERTH_OK) return failed("copy");
  if (berth_stream_synchronize(stream) != BERTH_OK) return failed("synchronize");
  berth_pool_statistics_of(pool, &now);
  printf("a block of %u bytes of 7s: the first is %u; the file holds %u KiB\n", 1u << 20, first,
         (unsigned)(memory.held >> 10));
  berth_pool_free(pool, block);
  berth_pool_destroy(pool);
  berth_stream_destroy(stream);
  berth_device_close(device); /* calls mmap_closed */
  printf("then %u\n", (unsigned)memory.held);
  return first == 7 && memory.held == 0 && now.live == 1 << 20 ? 0 : 1;
}
