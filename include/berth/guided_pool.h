/* Pools that a plan guides, in C99, for steps that ask for the same memory again and again. What one does, and what a
 * step that differs costs, is said in berth/graph/guided_pool.hpp.
 *
 *   berth_guided_pool_create(device, NULL, NULL, &pool);    // a berth_pool: all of berth/pool.h serves it
 *   for (i = 0; i < batches; ++i) {
 *     berth_guided_pool_begin_step(pool);
 *     ...
 *     berth_pool_allocate(pool, 1 << 20, stream, &block);
 *     ...
 *     berth_pool_free(pool, block);
 *   }
 *   berth_pool_destroy(pool);
 *
 * Statistics and reports of berth/pool.h, what a recorder hears of, and berth_pool_trim() are those of the pool
 * beneath, to which each stream's planned memory is one block.
 *
 * Errors, handles and structs of other versions: berth/status.h; a pool that is not guided is BERTH_INVALID here.
 * Threads and cost: as of every pool (berth/pool.h). Units are bytes. */
#ifndef BERTH_GUIDED_POOL_H
#define BERTH_GUIDED_POOL_H

#include "berth/plan.h"
#include "berth/pool.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* Either may be null. `search` is how hard the planner tries in berth_guided_pool_begin_step(), its deadline counted
 * from there; with a progress function it is BERTH_INVALID. Loops that run independently of each other have a pool
 * each. */
berth_status berth_guided_pool_create(const berth_device* device, const berth_pool_options* options,
                                      const berth_solve_options* search, berth_pool** out);

/* The step before is over, the next one begins, of all streams. Whatever is to live as long as the program is best
 * asked for before the first. Plans where there is something new to plan, which takes as long as berth_solve(). Any
 * thread may call it, but not from within what a stream runs. */
berth_status berth_guided_pool_begin_step(berth_pool* pool);
/* The next step is listened to again, and planned anew after that: for when steps have changed for good. */
berth_status berth_guided_pool_relearn(berth_pool* pool);

typedef struct berth_guided_pool_statistics {
  size_t struct_size;
  uint64_t steps;           /* begun */
  uint64_t planned;         /* allocations at the place planned for them */
  uint64_t elsewhere;       /* elsewhere in the plan's memory, since the step differed */
  uint64_t passed;          /* by the pool beneath, to the 16 streams that may have a plan; not those aligned */
  uint64_t broken_up;       /* plans whose free memory was needed in the middle of a step */
  uint64_t streams_planned; /* 16 at most */
  uint64_t parts;           /* bytes that the plans have, or will take with the first request */
  uint64_t lower_bound;     /* no plans of those steps need less, each stream by itself */
  const char* refusal;      /* static text: why the last stream that has no plan has none; "" where none lacks one */
} berth_guided_pool_statistics;
/* Fills as much of *statistics as its struct_size has room for. */
berth_status berth_guided_pool_statistics_of(const berth_pool* pool, berth_guided_pool_statistics* statistics);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
