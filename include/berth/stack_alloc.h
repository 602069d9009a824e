/* STACK_ALLOC and STACK_FREE, the two macros of OpenBLAS's common_stackalloc.h, over scratch: for C code that has them.
 *
 *   double* buffer;
 *   STACK_ALLOC(m + n, double, buffer);
 *   if (buffer == NULL) return ENOMEM;
 *   ...
 *   STACK_FREE(buffer);
 *
 * Nothing lies on the stack, so that a thread with a small one cannot overflow it, there is no threshold to choose, and
 * neither names nor `volatile` are planted in the caller. The memory is aligned to 64 bytes and not initialised;
 * several may be alive in one function, and be freed in any order, on the thread that asked. A byte written outside a
 * buffer is noticed at STACK_FREE, in every build: one line on standard error, then abort. What is different for the
 * caller: the count is 64 bits wide, and where memory is exhausted, or count times size is no size, the buffer is null.
 *
 * Cost: one call each, some nanoseconds (docs/scratch.md), whatever the size. */
#ifndef BERTH_STACK_ALLOC_H
#define BERTH_STACK_ALLOC_H

#include "berth/c/scratch.h"

/* Another header of this name would say what the names mean from here on: that has to be noticed, not guessed. */
#if defined(STACK_ALLOC) || defined(STACK_FREE)
#error "berth/stack_alloc.h: STACK_ALLOC is defined already; include this instead of that header, not after it"
#endif

#ifdef __cplusplus
#define STACK_ALLOC(count, type, buffer) ((buffer) = static_cast<type*>(berth_scratch_allocate((count), sizeof(type))))
#else
#define STACK_ALLOC(count, type, buffer) ((buffer) = berth_scratch_allocate((count), sizeof(type)))
#endif
#define STACK_FREE(buffer) berth_scratch_free(buffer)

#endif
