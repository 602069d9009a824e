/* The simulator's functions besides AscendCL's own. A program that also runs on a chip looks these up with dlsym (none
 * of them is in CANN) or leaves them out. All are thread-safe. C and C++. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* A mistake that a chip would have accepted silently, with corrupted memory, or a use that the documents leave
 * undefined. The texts last until ascend_simulator_clear(). */
typedef struct ascend_simulator_violation {
  const char* kind;  /* "early_free", "race", "out_of_bounds", ...: README.md has the list */
  const char* call;  /* the AscendCL function that was called */
  const char* text;  /* one line */
  const char* place; /* its caller: function+offset (module) */
} ascend_simulator_violation;

uint64_t ascend_simulator_violations(void);
/* Copies violation `index`, from 0. Returns 0 if there is none. The first 1000 are kept. */
int ascend_simulator_get_violation(uint64_t index, ascend_simulator_violation* out);
/* Forgets the violations; the process ends with its own exit status again. */
void ascend_simulator_clear(void);
/* Writes profile, violations, unfreed objects and the calls so far to this file descriptor. */
void ascend_simulator_report(int file);

/* Returns the calls of this function so far; null: of all functions. */
uint64_t ascend_simulator_calls(const char* function);
/* Returns the number of unfreed objects: blocks, registrations, streams, events, reservations, physical memory,
 * mappings, and aclnn's tensors, scalars, arrays, lists and executors. */
uint64_t ascend_simulator_live(void);

/* Makes the nth call of this function from now (1: the next one) only fail with this code. */
void ascend_simulator_fail(const char* function, int nth, int code);
/* Makes the next operation of a stream fail with this code, which the stream's next synchronize or query reports. */
void ascend_simulator_fail_work(int code);
/* Sets aclrtRunMode: ACL_DEVICE (on the chip; memory of aclrtMallocHost has no alignment), or ACL_HOST. */
void ascend_simulator_run_mode(int mode);

/* The documents' rule for the parts of a block, by the function that allocated the block. */
typedef struct ascend_simulator_part_rule {
  size_t start;        /* A part starts at a multiple of it. */
  size_t unit;         /* Sizes of blocks and of parts are rounded up to a multiple of it. */
  size_t behind_block; /* Bytes that the function adds to the rounded size of its block. */
  size_t behind_part;  /* Bytes that stay free behind the rounded size of a part. */
} ascend_simulator_part_rule;
/* Copies the rule of `function` ("aclrtMalloc", ...) on `chip` ("310P", ...; null: the profile's). Returns 1, or 0 and
 * leaves `out` as it was if either is unknown. */
int ascend_simulator_get_part_rule(const char* chip, const char* function, ascend_simulator_part_rule* out);

/* For an allocator that cuts one block into parts: reports the part that it allocated or freed. The simulator then
 * checks the rules of sub-allocation (start, rounding, bytes behind the end, overlap with another part), on device,
 * media and pinned blocks. Work enqueued on a part after its free is a use after free. These two are optional: a part
 * that is reused too early is detected without them. */
void ascend_simulator_part_taken(const void* start, size_t size);
void ascend_simulator_part_given_back(const void* start);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
