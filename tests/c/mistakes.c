/* A program in C99 that makes one mistake with memory. It prints the line of the call that the report must name.
 * usage: mistakes pool|foreign MISTAKE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "berth/pool.h"
#include "berth/recorder.h"

static berth_device* device;
static berth_stream* stream;
static berth_pool* pool;

/* Calls, and prints its line. */
#define HERE(call) (printf("%d\n", __LINE__), (void)(call))
#define IS(name) (strcmp(mistake, name) == 0)

static char* block(uint64_t size) {
  void* made = NULL;
  if (berth_pool_allocate(pool, size, stream, &made) != BERTH_OK) exit(3);
  return made;
}
static char* recorded(size_t size) {
  char* made = malloc(size);
  berth_record_allocation(made, size);
  return made;
}

static void of_pool(const char* mistake) {
  char* b = block(100);
  if (IS("double")) {
    berth_pool_free(pool, b);
    HERE(berth_pool_free(pool, b));
  } else if (IS("foreign")) {
    HERE(berth_pool_free(pool, (void*)device));
  } else if (IS("inside")) {
    HERE(berth_pool_free(pool, b + 8));
  } else if (IS("behind")) {
    b[100] = 1;
    HERE(berth_pool_free(pool, b));
  } else if (IS("before")) {
    b[-1] = 1;
    HERE(berth_pool_free(pool, b));
  } else if (IS("other")) {
    berth_pool* other = NULL;
    berth_pool_create(device, NULL, &other);
    HERE(berth_pool_free(other, b));
    berth_pool_destroy(other);
  } else if (IS("leak")) {
    void* lost = NULL;
    HERE(berth_pool_allocate(pool, 64, stream, &lost));
  } else if (IS("after")) {
    HERE(berth_pool_free(pool, b));
    b[10] = 1;
  } else if (IS("many")) {
    for (int i = 0; i < 11; ++i) (void)block(64);
  }
}

static void of_others(const char* mistake) {
  char* b = recorded(100);
  if (IS("double")) {
    berth_record_free(b);
    HERE(berth_record_free(b));
  } else if (IS("late")) { /* the address was freed 4096 frees before, and again just now */
    static char others[4096];
    berth_record_free(b);
    for (int i = 0; i < 4094; ++i) berth_record_allocation(&others[i], 1), berth_record_free(&others[i]);
    berth_record_allocation(b, 50);
    berth_record_free(b);
    berth_record_allocation(&others[4095], 1);
    berth_record_free(&others[4095]);
    HERE(berth_record_free(b));
  } else if (IS("foreign")) {
    HERE(berth_record_free(mistake));
  } else if (IS("inside")) {
    HERE(berth_record_free(b + 8));
  } else if (IS("leak")) {
    char* lost = malloc(64);
    HERE(berth_record_allocation(lost, 64));
    free(lost);
  } else if (IS("again")) { /* no mistake: the address comes again */
    berth_record_free(b);
    berth_record_allocation(b, 50);
    berth_record_free(b);
  } else if (IS("many")) {
    for (int i = 0; i < 11; ++i) berth_record_allocation(b + i + 1, 1);
  }
  free(b);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (strcmp(argv[1], "foreign") == 0) return of_others(argv[2]), 0;
  if (berth_device_open("host", &device) != BERTH_OK || berth_stream_create(device, &stream) != BERTH_OK) return 3;
  if (berth_pool_create(device, NULL, &pool) != BERTH_OK) return 3;
  if (strcmp(argv[1], "status") == 0) {
    char* b = block(100);
    int known = 0;
    return berth_pool_free(pool, &known) != BERTH_INVALID || berth_pool_free(pool, b + 8) != BERTH_INVALID ||
           berth_pool_free(pool, b) != BERTH_OK || berth_pool_free(pool, b) != BERTH_INVALID;
  }
  of_pool(argv[2]);
  berth_pool_destroy(pool);
  berth_stream_destroy(stream);
  berth_device_close(device);
  return 0;
}
