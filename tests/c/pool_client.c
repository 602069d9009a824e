/* A program in C99 that knows berth/pool.h and berth/recorder.h, and nothing else of Berth. */
#include "pool_client.h"

#include "berth/pool.h"
#include "berth/recorder.h"

/* Numbers that programs were compiled with: they stay. */
typedef char status_stays[BERTH_LIMIT == 8 && BERTH_NO_DEVICE == 9 && BERTH_UNSUPPORTED == 10 &&
                                  BERTH_DEVICE_FAILED == 11 && BERTH_IO == 12
                              ? 1
                              : -1];
typedef char kinds_stay[BERTH_MEMORY_DEVICE == 0 && BERTH_MEMORY_PINNED == 1 ? 1 : -1];

static void add_one(void* context) {
  ++*(int*)context;
}

const char* pool_client(void) {
  const char* wrong = "";
  berth_device* device = NULL;
  berth_stream* stream = NULL;
  berth_pool* pool = NULL;
  berth_recorder* recorder = NULL;
  berth_pool_options options = BERTH_INIT(berth_pool_options);
  berth_pool_statistics statistics = BERTH_INIT(berth_pool_statistics);
  berth_device_properties properties = BERTH_INIT(berth_device_properties);
  void* a = NULL;
  void* b = NULL;
  int calls = 0;
  size_t leaks = 1;
  if (berth_device_open(NULL, &device) != BERTH_OK) return "device";
  if (berth_device_describe(device, &properties) != BERTH_OK || !properties.host_accessible) wrong = "describe";
  options.limit = 1 << 24;
  if (berth_stream_create(device, &stream) != BERTH_OK) wrong = "stream";
  if (berth_pool_create(device, &options, &pool) != BERTH_OK) wrong = "pool";
  if (berth_recorder_create(0, &recorder) != BERTH_OK || berth_recorder_start(recorder) != BERTH_OK) wrong = "recorder";
  if (berth_pool_allocate(pool, 1000, stream, &a) != BERTH_OK) wrong = "allocate";
  if (berth_pool_allocate_aligned(pool, 1000, 4096, stream, &b) != BERTH_OK || (uintptr_t)b % 4096 != 0)
    wrong = "align";
  if (berth_stream_fill(stream, a, 7, 1000) != BERTH_OK || berth_stream_copy(stream, b, a, 1000) != BERTH_OK) {
    wrong = "fill and copy";
  }
  if (berth_stream_call(stream, add_one, &calls) != BERTH_OK || berth_stream_synchronize(stream) != BERTH_OK) {
    wrong = "call";
  }
  if (calls != 1 || ((unsigned char*)b)[999] != 7) wrong = "the stream did not run";
  if (berth_pool_statistics_of(pool, &statistics) != BERTH_OK || statistics.live != 2000) wrong = "statistics";
  if (berth_pool_free(pool, a) != BERTH_OK || berth_pool_free(pool, b) != BERTH_OK) wrong = "free";
  if (berth_recorder_leaks(recorder, &leaks, NULL) != BERTH_OK || leaks != 0) wrong = "leaks";
  berth_recorder_destroy(recorder);
  berth_pool_destroy(pool);
  berth_stream_destroy(stream);
  berth_device_close(device);
  return wrong;
}

int leak_one(void* pool, void* stream) {
  void* block;
  return berth_pool_allocate(pool, 12345, stream, &block) == BERTH_OK ? __LINE__ : -1;
}
