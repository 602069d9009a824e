/* A program in C99 that knows berth/guided_pool.h, and nothing else of Berth. */
#include "guided_client.h"

#include "berth/guided_pool.h"

const char* guided_client(void) {
  const char* wrong = "";
  berth_device* device = NULL;
  berth_stream* stream = NULL;
  berth_pool* pool = NULL;
  berth_pool_options options = BERTH_INIT(berth_pool_options);
  berth_solve_options search = BERTH_INIT(berth_solve_options);
  berth_guided_pool_statistics statistics = BERTH_INIT(berth_guided_pool_statistics);
  int step;
  options.limit = 1 << 24;
  search.effort = BERTH_EFFORT_FAST;
  if (berth_device_open(NULL, &device) != BERTH_OK) return "device";
  if (berth_stream_create(device, &stream) != BERTH_OK) wrong = "stream";
  if (berth_guided_pool_create(device, &options, &search, &pool) != BERTH_OK) wrong = "pool";
  for (step = 0; step < 4; ++step) {
    void* a = NULL;
    void* b = NULL;
    if (berth_guided_pool_begin_step(pool) != BERTH_OK) wrong = "begin_step";
    if (berth_pool_allocate(pool, 1000, stream, &a) != BERTH_OK) wrong = "allocate";
    if (berth_pool_allocate(pool, 2000, stream, &b) != BERTH_OK) wrong = "allocate another";
    if (berth_stream_fill(stream, a, 7, 1000) != BERTH_OK || berth_stream_copy(stream, b, a, 1000) != BERTH_OK) {
      wrong = "fill and copy";
    }
    if (berth_stream_synchronize(stream) != BERTH_OK || ((unsigned char*)b)[999] != 7) wrong = "the stream did not run";
    if (berth_pool_free(pool, a) != BERTH_OK || berth_pool_free(pool, b) != BERTH_OK) wrong = "free";
  }
  if (berth_guided_pool_statistics_of(pool, &statistics) != BERTH_OK) wrong = "statistics";
  if (statistics.steps != 4 || statistics.planned != 6 || statistics.passed != 2 || statistics.refusal[0] != '\0') {
    wrong = "steps were not planned";
  }
  if (berth_guided_pool_relearn(pool) != BERTH_OK) wrong = "relearn";
  berth_pool_destroy(pool);
  berth_stream_destroy(stream);
  berth_device_close(device);
  return wrong;
}
