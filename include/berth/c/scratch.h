/* Scratch memory for kernels written in C (berth/scratch/scratch.hpp is the same for C++).
 *
 *   float* packed = berth_scratch_allocate(n, sizeof *packed);
 *   if (packed == NULL) return ENOMEM;
 *   ...
 *   berth_scratch_free(packed);
 *
 * The memory comes from the calling thread's arena: no lock and no stack, and no heap once a workload has run through.
 * It is aligned to 64 bytes and not initialised. Blocks may be freed in any order, for as long as the program runs, on
 * the thread that allocated them: what was freed below a live block is reused. After a peak the arena shrinks to its
 * recent use.
 *
 * Noticed when a block is freed: a changed byte among the 8 before its start or the 8 past its end, a second free, a
 * block of another arena, and a free on another thread. These are contract errors: one line on standard error, then
 * abort. C has no destructors, so there is no inline part. A kernel with small buffers of fixed size does best with an
 * array of its own.
 */
#ifndef BERTH_C_SCRATCH_H
#define BERTH_C_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* Allocates count elements of `size` bytes. Returns null if the product exceeds the address space or memory is
 * exhausted; what was allocated before stays valid. A count of 0 gives a pointer that is not null and must be freed.
 * The count is 64 bits wide everywhere, so that a product of dimensions is not cut down on its way in. */
void* berth_scratch_allocate(uint64_t count, size_t size);

/* Does the same at a larger alignment: a power of two from 64 to 1 GiB. */
void* berth_scratch_allocate_aligned(uint64_t count, size_t size, size_t alignment);

/* Gives a block back. Null does nothing. */
void berth_scratch_free(void* block);

/* Do the same and take the place that a contract error names. The macros pass it; other languages call the functions
 * above. */
void* berth_scratch_allocate_at(uint64_t count, size_t size, size_t alignment, const char* file, unsigned line);
void berth_scratch_free_at(void* block, const char* file, unsigned line);
#define berth_scratch_allocate(count, size) berth_scratch_allocate_at((count), (size), 64, __FILE__, __LINE__)
#define berth_scratch_allocate_aligned(count, size, alignment) \
  berth_scratch_allocate_at((count), (size), (alignment), __FILE__, __LINE__)
#define berth_scratch_free(block) berth_scratch_free_at((block), __FILE__, __LINE__)

/* The figures of the calling thread's arena, in bytes and counts. in_use is in live blocks, with their headers; see
 * scratch_statistics in berth/scratch/scratch_arena.hpp. */
typedef struct berth_scratch_statistics {
  uint64_t in_use;
  uint64_t peak;
  uint64_t reserved;
  uint64_t chunks;
  uint64_t growths;
  uint64_t blocks;
} berth_scratch_statistics;
berth_scratch_statistics berth_scratch_statistics_of_thread(void);

/* Gives the calling thread's unused scratch memory back. */
void berth_scratch_trim(void);

/* Returns the bytes left of the calling thread's stack; 0 if that is not known (see berth/scratch/scratch.hpp). */
size_t berth_stack_left(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
