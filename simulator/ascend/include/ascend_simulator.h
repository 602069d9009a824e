/* What the simulator can be asked beside AscendCL's own functions. A program that also runs on a chip looks these up
 * with dlsym (none of them is in CANN) or leaves them out. All are thread-safe. C and C++. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* What a chip would have taken silently and answered with corrupted memory, or what the documents leave undefined.
 * The texts last until ascend_simulator_clear(). */
typedef struct ascend_simulator_violation {
  const char* kind;  /* "early_free", "race", "out_of_bounds", ...: README.md has the list */
  const char* call;  /* the AscendCL function that was called */
  const char* text;  /* one line */
  const char* place; /* who called it: function+offset (module) */
} ascend_simulator_violation;

uint64_t ascend_simulator_violations(void);
/* The number `index` of those, from 0; 0 where there is none. The first 1000 are kept. */
int ascend_simulator_get_violation(uint64_t index, ascend_simulator_violation* out);
/* Forgets the violations; the process ends with its own exit status again. */
void ascend_simulator_clear(void);
/* Profile, violations, what is not given back and the calls so far, to this file descriptor. */
void ascend_simulator_report(int file);

/* Calls of this function so far; of all functions where null. */
uint64_t ascend_simulator_calls(const char* function);
/* Blocks, registrations, streams, events, reservations, physical memory, mappings, and aclnn's tensors, scalars,
 * arrays, lists and executors that were not given back. */
uint64_t ascend_simulator_live(void);

/* The nth call of this function from now (1: the next one) does nothing but fail with this code. */
void ascend_simulator_fail(const char* function, int nth, int code);
/* The next operation that a stream comes to fails with this code, which the stream's next synchronize or query says. */
void ascend_simulator_fail_work(int code);
/* aclrtRunMode: ACL_DEVICE, the program runs on the chip (memory of aclrtMallocHost has no alignment), or ACL_HOST. */
void ascend_simulator_run_mode(int mode);

/* The documents' rule for the parts of a block, by the function that gave the block. */
typedef struct ascend_simulator_part_rule {
  size_t start;        /* A part starts at a multiple of it. */
  size_t unit;         /* Sizes of blocks and of parts are rounded up to a multiple of it. */
  size_t behind_block; /* Bytes that the function adds to the rounded size of its block. */
  size_t behind_part;  /* Bytes that stay free behind the rounded size of a part. */
} ascend_simulator_part_rule;
/* Copies the rule of `function` ("aclrtMalloc", ...) on `chip` ("310P", ...; null: the profile's). Returns 1, or 0 and
 * leaves `out` as it was if either is unknown. */
int ascend_simulator_get_part_rule(const char* chip, const char* function, ascend_simulator_part_rule* out);

/* For an allocator that cuts one block into parts: tells which part it gave out or got back. The rules of
 * sub-allocation are checked then (start, rounding, bytes behind the end, overlap with another part), on device, media
 * and pinned blocks. Work enqueued on a part after it came back is a use after free. Nothing needs these two: a part
 * that is reused too early is seen without them. */
void ascend_simulator_part_taken(const void* start, size_t size);
void ascend_simulator_part_given_back(const void* start);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
