/* Scratch memory for kernels written in C (berth/scratch/scratch.hpp is the same for C++).
 *
 *   float* packed = berth_scratch_allocate(n, sizeof *packed);
 *   if (packed == NULL) return ENOMEM;
 *   ...
 *   berth_scratch_free(packed);
 *
 * The memory comes from the calling thread's arena: no lock, no heap after warm-up, no stack. It is aligned to 64 bytes
 * and not initialised. Blocks may be freed in any order, on the thread that allocated them. A byte written outside a
 * block is noticed when it is freed; that, a second free and a free on another thread are contract errors: one line on
 * standard error, then abort. C has no destructors, so there is no inline part: a kernel whose buffers are small and of
 * fixed size does best with an array of its own.
 */
#ifndef BERTH_C_SCRATCH_H
#define BERTH_C_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* count elements of `size` bytes. Null where the product exceeds the address space or memory is exhausted; what was
 * allocated before stays valid. A count of 0 gives a pointer that is not null and must be freed. The count is 64 bits
 * wide everywhere, so that a product of dimensions is not cut down on its way in. */
void* berth_scratch_allocate(uint64_t count, size_t size);

/* The same at a larger alignment: a power of two from 64 to 1 GiB. */
void* berth_scratch_allocate_aligned(uint64_t count, size_t size, size_t alignment);

/* Gives a block back. Null does nothing. */
void berth_scratch_free(void* block);

/* The same, told the place that a contract error names. The macros tell it; other languages call the functions above.
 */
void* berth_scratch_allocate_at(uint64_t count, size_t size, size_t alignment, const char* file, unsigned line);
void berth_scratch_free_at(void* block, const char* file, unsigned line);
#define berth_scratch_allocate(count, size) berth_scratch_allocate_at((count), (size), 64, __FILE__, __LINE__)
#define berth_scratch_allocate_aligned(count, size, alignment) \
  berth_scratch_allocate_at((count), (size), (alignment), __FILE__, __LINE__)
#define berth_scratch_free(block) berth_scratch_free_at((block), __FILE__, __LINE__)

/* The calling thread's arena, in bytes and counts; see scratch_statistics in berth/scratch/scratch_arena.hpp. */
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

/* Bytes left of the calling thread's stack; 0 where that is not known (see berth/scratch/stack_left.hpp). */
size_t berth_stack_left(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
