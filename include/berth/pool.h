/* Pools of device memory in stream order, in C99. What a pool does, and how, is said in berth/pool/pool.hpp.
 *
 *   berth_device_open("host", &device);
 *   berth_stream_create(device, &stream);
 *   berth_pool_create(device, NULL, &pool);
 *   berth_pool_allocate(pool, 1 << 20, stream, &block);    // for work enqueued on the stream from now on
 *   ...
 *   berth_pool_free(pool, block);    // work enqueued on that stream later may have it again
 *
 * Errors, handles and structs of other versions: berth/status.h. Blocks are checked too: what is no live block of the
 * pool, or was freed already, is BERTH_INVALID. Only two threads that free one block at the very same time break a
 * contract: one line on standard error, then abort.
 *
 * Threads. Every function may be called from several threads at once. A block may be freed by another thread than the
 * one that asked for it. Cost: the pool's own, and some 40 ns a call for the handles (bench_c). Units are bytes. */
#ifndef BERTH_POOL_H
#define BERTH_POOL_H

#include "berth/stream.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct berth_pool berth_pool;

typedef struct berth_pool_options {
  size_t struct_size;
  int32_t kind;               /* berth_memory_kind */
  int32_t wait_for_streams;   /* 1: a request may make its stream wait for others before it fails */
  uint64_t limit;             /* never holds more of the device; 0: as much as it has */
  double fraction;            /* ... and never more than this share of the device; 0: all */
  uint64_t initial;           /* taken at once, as far as the device has it */
  uint64_t release_threshold; /* free memory that may stay; 0: as much as was alive lately */
  uint64_t idle_release_ms;   /* a chunk that was free for so long goes back; 0: never */
  int32_t no_stitch;          /* 1: no block is built of scattered granules */
  int32_t quiet;              /* 1: destruction does not write leaks to standard error */
  /* Called where a request is about to fail, without any lock: it may free blocks, trim pools, synchronise streams, but
   * not destroy the pool and the stream of the request. Not zero: search once more, and ask again (attempt counts from
   * 1) if that was in vain. It may not call longjmp. */
  int (*pressure)(void* context, uint64_t size, uint32_t attempt);
  void* context;
  /* The pool defragments inside its users' calls (berth_pool_defragment), and has no thread for it: if more than this
   * share of the free memory lies outside the largest hole, and at the first call after so many milliseconds. 0: never.
   */
  double defragment_above;
  uint64_t defragment_every_ms;
} berth_pool_options;

/* `options` may be null. */
berth_status berth_pool_create(const berth_device* device, const berth_pool_options* options, berth_pool** out);
/* Waits for work that may still use its memory, so not from within a stream's work (berth/status.h). The memory then
 * goes back: blocks still alive are leaks, and a line for each goes to standard error. Null does nothing. */
void berth_pool_destroy(berth_pool* pool);

/* A block for work enqueued on the stream from now on, in *out. Size 0 gives a null, which need not be freed.
 * `alignment` is a power of two, or 0: the device's own is enough. BERTH_NO_MEMORY, BERTH_LIMIT; berth_error_index() is
 * the bytes asked for then, and berth_pool_out_of_memory_report() says what was where. */
berth_status berth_pool_allocate(berth_pool* pool, uint64_t size, berth_stream* stream, void** out);
berth_status berth_pool_allocate_aligned(berth_pool* pool, uint64_t size, uint64_t alignment, berth_stream* stream,
                                         void** out);
/* Null does nothing. */
berth_status berth_pool_free(berth_pool* pool, void* block);
/* Work on this stream uses the block too: it is not given out again before that work, up to the free, is done. */
berth_status berth_pool_use_on(berth_pool* pool, void* block, berth_stream* stream);
/* The bytes asked for of a live block. */
berth_status berth_pool_size_of(const berth_pool* pool, const void* block, uint64_t* size);

/* The same, told the place that leaks and reports name: a text that stays (a literal), or null. The macros tell it;
 * other languages call the functions above. */
berth_status berth_pool_allocate_at(berth_pool* pool, uint64_t size, uint64_t alignment, berth_stream* stream,
                                    void** out, const char* file, unsigned line);
berth_status berth_pool_free_at(berth_pool* pool, void* block, const char* file, unsigned line);
#define berth_pool_allocate(pool, size, stream, out) \
  berth_pool_allocate_at((pool), (size), 0, (stream), (out), __FILE__, __LINE__)
#define berth_pool_allocate_aligned(pool, size, alignment, stream, out) \
  berth_pool_allocate_at((pool), (size), (alignment), (stream), (out), __FILE__, __LINE__)
#define berth_pool_free(pool, block) berth_pool_free_at((pool), (block), __FILE__, __LINE__)

/* Gives free memory back to the device until no more than `keep` bytes are held or nothing is left that no work may
 * touch. What went back goes to *released unless that is null. */
berth_status berth_pool_trim(berth_pool* pool, uint64_t keep, uint64_t* released);
/* Empties the caches and joins free ranges; moves nothing. The largest hole then goes to *largest_hole unless that is
 * null. */
berth_status berth_pool_defragment(berth_pool* pool, uint64_t* largest_hole);

/* One consistent snapshot; see pool_statistics in berth/pool/pool.hpp. */
typedef struct berth_pool_statistics {
  size_t struct_size;
  uint64_t live; /* in users' hands, as asked for */
  uint64_t live_peak;
  uint64_t live_rounded; /* ... rounding included */
  uint64_t cached;       /* in threads' caches */
  uint64_t free;
  uint64_t reserved; /* of the device: live_rounded + cached + free */
  uint64_t reserved_peak;
  uint64_t largest_hole;
  uint64_t live_blocks;
  uint64_t allocations; /* that succeeded */
  uint64_t frees;
  uint64_t failures;
  uint64_t cache_hits;  /* allocations that took no lock of the pool */
  uint64_t device_hits; /* allocations for which the device was called */
  uint64_t stitched;
  double fragmentation; /* unusable / reserved */
  uint64_t defragmentations;
  uint64_t rounding; /* live_rounded - live */
  uint64_t idle;     /* cached + free: held, in no live block */
  uint64_t unusable; /* of it: in holes below the largest request */
} berth_pool_statistics;
/* Fills as much of *statistics as its struct_size has room for. */
berth_status berth_pool_statistics_of(const berth_pool* pool, berth_pool_statistics* statistics);

/* Texts for people. As much as `room` holds goes to `text`, always with a zero at its end; *length (unless null) is the
 * whole text's length without that, as of snprintf(): room > *length was enough. `text` may be null where room is 0.
 *
 * report: live, cached and free memory by stream, the largest hole, the places that hold most. */
berth_status berth_pool_report(const berth_pool* pool, char* text, size_t room, size_t* length);
/* Of the last request that failed for lack of memory, with the cheapest fix; empty where none did. */
berth_status berth_pool_out_of_memory_report(const berth_pool* pool, char* text, size_t room, size_t* length);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
