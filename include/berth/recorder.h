/* The recorder in C99: leaks with file and line, and recordings for `berth report`, `berth view` and `berth replay`.
 *
 *   berth_recorder_create(0, &recorder);
 *   berth_recorder_start(recorder);
 *   ...                                   // whatever uses pools, in this language or another
 *   berth_recorder_stop(recorder);
 *   berth_recorder_write(recorder, pool, "run.json");
 *
 * Errors and handles: berth/status.h. What it keeps, and what it costs, is said in berth/trace/recorder.hpp. One
 * recorder at a time listens. Every function may be called from several threads; destroy it when no thread is inside a
 * call of a pool (unchecked). */
#ifndef BERTH_RECORDER_H
#define BERTH_RECORDER_H

#include "berth/pool.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct berth_recorder berth_recorder;

/* `capacity`: bytes kept, 32 an event; 0: 64 MiB. */
berth_status berth_recorder_create(uint64_t capacity, berth_recorder** out);
/* Stops it first. Null does nothing. */
void berth_recorder_destroy(berth_recorder* recorder);

/* BERTH_INVALID where another listens. Starting one that listens, or stopping one that does not, does nothing. */
berth_status berth_recorder_start(berth_recorder* recorder);
berth_status berth_recorder_stop(berth_recorder* recorder);

/* Blocks given out and not given back since the start, and their bytes; either may be null. Right where nothing was
 * dropped. */
berth_status berth_recorder_leaks(const berth_recorder* recorder, size_t* blocks, uint64_t* bytes);
/* "SIZE bytes at ADDRESS, asked for at FILE:LINE" for each, then the sum. `room` and `length` as of
 * berth_pool_report().
 */
berth_status berth_recorder_leak_report(const berth_recorder* recorder, char* text, size_t room, size_t* length);
/* Events that were lost for want of room. */
berth_status berth_recorder_dropped(const berth_recorder* recorder, uint64_t* events);

/* Writes all that is kept as a snapshot (berth-snapshot/1), with the statistics of the pool and of its device unless
 * `pool` is null. The file is there in full or not at all. BERTH_IO. */
berth_status berth_recorder_write(const berth_recorder* recorder, const berth_pool* pool, const char* path);

/* Memory of other allocators (malloc, cudaMalloc, aclrtMalloc), as berth/pool/debug.hpp says: a recorder keeps it,
 * and BERTH_DEBUG has it in its report, with file and line. Record a free before the memory goes back. BERTH_INVALID: a
 * double free, or a free of a block that is not recorded, if BERTH_DEBUG is on; it stops the program unless `warn` is
 * set. */
berth_status berth_record_allocation_at(const void* block, uint64_t size, const char* file, unsigned line);
berth_status berth_record_free_at(const void* block, const char* file, unsigned line);
#define berth_record_allocation(block, size) berth_record_allocation_at((block), (size), __FILE__, __LINE__)
#define berth_record_free(block) berth_record_free_at((block), __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
