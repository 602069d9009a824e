/* The planner in C99: tensors' sizes and lifetimes in, offsets in one arena out, with a proved lower bound.
 *
 *   berth_problem* problem;
 *   berth_plan* plan;
 *   berth_problem_create(NULL, &problem);
 *   berth_problem_add_many(problem, n, size, lower, upper);    // lives during [lower, upper), any ticks
 *   if (berth_solve(problem, NULL, &plan) == BERTH_OK) berth_plan_offsets(plan, offset, n);
 *   berth_plan_destroy(plan);
 *   berth_problem_destroy(problem);
 *
 * It is the same planner as berth/plan/solve.hpp, and gives the same offsets.
 *
 * Errors and versions: berth/status.h. "Not feasible" is no error: it is a plan with that outcome.
 *
 * Threads. Any handle may be used by several threads; of one problem one at a time may change it (else the changes are
 * in some order). A handle destroyed during a call stays alive until that call returns.
 *
 * Memory. Of the C++ heap (operator new): some hundred bytes a buffer, and what the search takes. Units are bytes.
 */
#ifndef BERTH_PLAN_H
#define BERTH_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "berth/status.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_PLAN_VERSION 1

typedef struct berth_problem berth_problem;
typedef struct berth_plan berth_plan;

/* --- problem */

typedef struct berth_problem_options {
  size_t struct_size;
  uint64_t alignment;   /* of every buffer that names none; 0 or 1: any. Not only powers of two */
  uint64_t granularity; /* sizes are rounded up to it; 0: 1 */
  uint64_t tail_pad;    /* added to every rounded size */
  uint64_t capacity;    /* of the one memory; 0: unbounded */
  uint64_t max_slab;    /* each memory is cut into slabs no larger; 0: not cut */
} berth_problem_options;

/* Bits of berth_buffer.fields: which of the optional fields count. */
#define BERTH_HAS_OFFSET 1u
#define BERTH_HAS_HINT 2u
#define BERTH_HAS_ALIAS_GROUP 4u

typedef struct berth_interval {
  int64_t lower;
  int64_t upper; /* exclusive */
} berth_interval;

typedef struct berth_buffer {
  size_t struct_size;
  uint64_t size;
  int64_t lower; /* lives during [lower, upper) ... */
  int64_t upper;
  const berth_interval* lifetimes; /* ... or, where this is not null, during these: sorted, disjoint; copied */
  size_t lifetime_count;
  uint64_t alignment;       /* 0: the problem's */
  uint64_t fields;          /* BERTH_HAS_... */
  uint64_t offset;          /* pinned here */
  uint64_t hint;            /* preferred offset: kept where it costs nothing */
  uint64_t alias_group;     /* below the number of buffers; members share their base offset */
  const uint32_t* memories; /* where it may live, in order of preference; null: in any. Copied */
  size_t memory_count;
} berth_buffer;

typedef struct berth_memory {
  size_t struct_size;
  uint64_t capacity;        /* 0: unbounded */
  uint64_t alignment;       /* 0: 1 */
  double cost;              /* a byte touched, 0 to 1e100; lower is better */
  const uint64_t* reserved; /* pairs lo, hi: nothing is placed in [lo, hi). Copied */
  size_t reserved_count;    /* of pairs */
} berth_memory;

/* `options` may be null: any alignment, one memory, unbounded. */
berth_status berth_problem_create(const berth_problem_options* options, berth_problem** out);
/* Null does nothing. */
void berth_problem_destroy(berth_problem* problem);

/* Appends a buffer; its index (from 0, in order) goes to *index unless that is null. Amortised O(1). */
berth_status berth_problem_add(berth_problem* problem, const berth_buffer* buffer, uint32_t* index);
/* Appends `count` buffers that have a size and one lifetime each. O(count). */
berth_status berth_problem_add_many(berth_problem* problem, size_t count, const uint64_t* size, const int64_t* lower,
                                    const int64_t* upper);
/* The first memory added replaces the one that the options described (their capacity must be 0 then). */
berth_status berth_problem_add_memory(berth_problem* problem, const berth_memory* memory, uint32_t* index);
/* Pairs of buffers that are alive together: once one was added, lifetimes do not count. Null and 0: none conflict. */
berth_status berth_problem_add_conflicts(berth_problem* problem, const uint32_t (*pairs)[2], size_t count);
/* Never at common addresses although never alive together. */
berth_status berth_problem_add_separations(berth_problem* problem, const uint32_t (*pairs)[2], size_t count);
/* A second objective, after the arena: the weight, 0 to 1e100, is paid where the two share any byte. */
berth_status berth_problem_add_reuse_penalty(berth_problem* problem, uint32_t a, uint32_t b, double weight);
/* Sizes that are only known at run time: a number between two bounds. The plan is then an order of the buffers. */
berth_status berth_problem_add_dimension(berth_problem* problem, uint64_t least, uint64_t most, uint32_t* index);

/* factor times the product of dimensions (by index; one may appear again). */
typedef struct berth_size_term {
  uint64_t factor;
  const uint32_t* dimensions; /* copied */
  size_t dimension_count;
} berth_size_term;
/* The buffer's size is the sum of the terms. It replaces the size that the buffer was added with. */
berth_status berth_problem_set_size(berth_problem* problem, uint32_t buffer, const berth_size_term* terms,
                                    size_t count);

/* A buffer is read or written at a tick of its life. */
#define BERTH_ANY_MEMORY UINT32_MAX
typedef struct berth_use {
  int64_t at;
  double touched;  /* bytes read and written */
  int32_t write;   /* not zero: every other stay of the buffer has ended by then */
  uint32_t memory; /* where the buffer must lie, or BERTH_ANY_MEMORY */
} berth_use;
/* Appends uses, in the order of their ticks. With uses, steps or links buffers may change their memory while they live:
 * berth/plan/plan.hpp defines the time that a plan takes. */
berth_status berth_problem_add_uses(berth_problem* problem, uint32_t buffer, const berth_use* uses, size_t count);
/* The program's work at a tick takes this long beside its uses. Steps are added in the order of their ticks. */
berth_status berth_problem_add_step(berth_problem* problem, int64_t at, double duration);
/* Copies go from one memory to another: bytes a time unit, and time units a copy. */
berth_status berth_problem_add_link(berth_problem* problem, uint32_t from, uint32_t to, double bandwidth,
                                    double latency);
/* Whether every field means something, as berth_solve() asks it. O(n log n). */
berth_status berth_problem_validate(const berth_problem* problem);

/* --- solve */

typedef enum berth_effort {
  BERTH_EFFORT_NORMAL =
      0, /* the greedy portfolio, then a search of about a tenth of a second where that is not optimal */
  BERTH_EFFORT_FAST = 1, /* for use at run time: a sweep or two */
  BERTH_EFFORT_BEST = 2  /* search until proved or the work limit (some ten seconds) */
} berth_effort;

typedef struct berth_solve_options {
  size_t struct_size;
  int32_t effort;      /* berth_effort */
  uint32_t threads;    /* of the search; 0: 1. Never changes the answer */
  uint64_t node_limit; /* search nodes; 0: the effort's own */
  double deadline_s;   /* seconds from the call; 0: none. The best so far is taken then */
  /* Called about every ten milliseconds by the calling thread, which then waits for the search in a thread of its own;
   * not zero stops, as a deadline does. `arena` is 0 until a plan was found. It may not call longjmp. */
  int (*progress)(void* context, uint64_t arena, uint64_t lower_bound, uint64_t work);
  void* context;
} berth_solve_options;

/* `options` may be null. BERTH_OK gives a plan whatever its outcome; it passed the verification before. */
berth_status berth_solve(const berth_problem* problem, const berth_solve_options* options, berth_plan** out);

/* As berth_solve(), with every buffer kept where it was, as far as the arena allows: `before` has an offset a buffer of
 * the problem, or BERTH_NEW_BUFFER. The number of buffers moved goes to *moved unless that is null. */
#define BERTH_NEW_BUFFER UINT64_MAX
berth_status berth_replan(const berth_problem* problem, const berth_solve_options* options, const uint64_t* before,
                          size_t count, berth_plan** out, size_t* moved);

/* Null does nothing. */
void berth_plan_destroy(berth_plan* plan);

/* --- plan */

typedef enum berth_outcome {
  BERTH_OPTIMAL = 0,    /* proved: no plan has a smaller arena (of several memories: none is cheaper) */
  BERTH_FEASIBLE = 1,   /* arena - lower_bound is the most that could still be gained */
  BERTH_INFEASIBLE = 2, /* proved: nothing fits the capacity; no offsets */
  BERTH_UNKNOWN = 3     /* neither, within the limits; no offsets */
} berth_outcome;

typedef struct berth_plan_summary {
  size_t struct_size;
  int32_t outcome;      /* berth_outcome */
  int32_t deadline_hit; /* or stopped */
  uint64_t arena;       /* the largest offset + size; over several memories or slabs their sum */
  uint64_t lower_bound; /* proved: every plan needs at least this */
  uint64_t work;        /* search nodes */
  double reuse_penalty; /* the weights that are paid */
  const char* solver;   /* static text: the method that found it */
  const char* reason;   /* static text: why infeasible or unknown; else "" */
  uint64_t culprit;     /* the buffer that the reason names, if it does */
  uint64_t number;      /* the bytes that the reason speaks of */
  double cost;          /* with stays access + stall; else each buffer's bytes times the cost of its memory */
  double cost_bound;    /* proved: no plan costs less */
  double access;        /* time of all uses */
  double stall;         /* time waited for copies */
  uint64_t copied;      /* bytes, by all moves */
  uint64_t stays;       /* how many; 0 without uses, steps and links */
  uint64_t moves;       /* how many */
} berth_plan_summary;

/* Fills as much of *summary as its struct_size has room for. */
berth_status berth_plan_summarize(const berth_plan* plan, berth_plan_summary* summary);

/* One number a buffer; `count` must be the number of buffers. With stays it is one a stay, and `count` their number.
 * Where the problem has one memory (is not cut into slabs), every memory (slab) is 0. With dimensions the offsets are
 * those at the largest values. */
berth_status berth_plan_offsets(const berth_plan* plan, uint64_t* offsets, size_t count);
berth_status berth_plan_memories(const berth_plan* plan, uint32_t* memories, size_t count);
berth_status berth_plan_slabs(const berth_plan* plan, uint32_t* slabs, size_t count);

/* Writes the offsets at these values of the dimensions, and the arena. For run time: allocates nothing. `problem` is
 * the one that was planned, unchanged. */
berth_status berth_plan_evaluate(const berth_plan* plan, const berth_problem* problem, const uint64_t* values,
                                 size_t value_count, uint64_t* offsets, size_t count, uint64_t* arena);

/* A part of a buffer's life, in one memory. */
typedef struct berth_stay {
  uint32_t buffer;
  uint32_t memory;
  int64_t lower; /* takes bytes during [lower, upper) */
  int64_t upper;
  int64_t ready; /* has the contents from here on */
} berth_stay;
/* A copy between two stays of a buffer, by their numbers. */
typedef struct berth_move {
  uint32_t from;
  uint32_t to;
  int64_t start; /* runs during [start, end) */
  int64_t end;
  double begin; /* modelled time, from the start of the first tick */
  double done;
} berth_move;
/* `count` must be that of the summary. Stays are in the order of their buffers, moves in that of their starts. */
berth_status berth_plan_stays(const berth_plan* plan, berth_stay* stays, size_t count);
berth_status berth_plan_moves(const berth_plan* plan, berth_move* moves, size_t count);

/* The independent check, which shares no code with the solver, of offsets wherever they come from: BERTH_OK, or
 * BERTH_REFUSED with the rule that is violated in berth_error_text(). `memories` and `slabs` may be null where the
 * problem has one memory (is not cut into slabs). O(n log n). */
berth_status berth_verify(const berth_problem* problem, const uint64_t* offsets, const uint32_t* memories,
                          const uint32_t* slabs, size_t count);
/* Checks the plan's certificate: that every plan of this problem needs at least lower_bound bytes. Where the bound was
 * proved by an exhausted search there is nothing to check it by: BERTH_REFUSED says so. */
berth_status berth_plan_check_bound(const berth_plan* plan, const berth_problem* problem);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
