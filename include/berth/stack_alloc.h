/* STACK_ALLOC and STACK_FREE, the two macros of OpenBLAS's common_stackalloc.h, over scratch.
 *
 *   double* buffer;
 *   STACK_ALLOC(m + n, double, buffer);
 *   if (buffer == NULL) return ENOMEM;
 *   ...
 *   STACK_FREE(buffer);
 *
 * There are two forms. OpenBLAS's own, above, assigns to a variable that is there. The other declares the variable; a
 * program selects it by a definition before this header:
 *
 *   #define BERTH_STACK_ALLOC_DECLARES
 *   #include "berth/stack_alloc.h"
 *   STACK_ALLOC(m + n, double, buffer);    declares double* buffer
 *
 * The memory comes from the calling thread's arena, never from the stack. A small stack cannot overflow, and there is
 * no threshold. The memory is aligned to 64 bytes and not initialised. Several buffers may live in one function. They
 * may be freed in any order and in another function, on the thread that allocated them. The count is 64 bits wide. The
 * buffer is null if memory is exhausted, or if count times size exceeds the address space.
 *
 * STACK_FREE checks in every build:
 *   - the 8 bytes before the buffer and the 8 bytes past its end
 *   - that the buffer lives, and that it belongs to this thread
 * It does not see writes further away. With BERTH_DEBUG=scratch in the environment it checks 64 bytes on both sides,
 * and N bytes with BERTH_DEBUG=scratch=N. Then a buffer that was never freed is also reported, with the file and line
 * of its STACK_ALLOC, when its thread or the program ends. A failed check prints one line on standard error and aborts.
 *
 * MAX_STACK_ALLOC, OpenBLAS's limit for buffers on the stack, is 0 here. Another value does not compile.
 *
 * Cost: one call each, some nanoseconds (docs/scratch.md), for any size. */
#ifndef BERTH_STACK_ALLOC_H
#define BERTH_STACK_ALLOC_H

#include "berth/c/scratch.h"

/* Another header of this name would give the macros another meaning from here on. */
#if defined(STACK_ALLOC) || defined(STACK_FREE)
#error "berth/stack_alloc.h: STACK_ALLOC is defined already; include this instead of that header, not after it"
#endif

#if defined(MAX_STACK_ALLOC)
#if MAX_STACK_ALLOC != 0
#error \
    "berth/stack_alloc.h: no buffer lies on the stack, so MAX_STACK_ALLOC has no effect; define it as 0 or not at all"
#endif
#endif

#ifdef __cplusplus
#define BERTH_STACK_ALLOC_OF(count, type) static_cast<type*>(berth_scratch_allocate((count), sizeof(type)))
#else
#define BERTH_STACK_ALLOC_OF(count, type) ((type*)berth_scratch_allocate((count), sizeof(type)))
#endif

#ifdef BERTH_STACK_ALLOC_DECLARES
#define STACK_ALLOC(count, type, buffer) type* buffer = BERTH_STACK_ALLOC_OF(count, type)
#else
#define STACK_ALLOC(count, type, buffer) ((buffer) = BERTH_STACK_ALLOC_OF(count, type))
#endif
#define STACK_FREE(buffer) berth_scratch_free(buffer)

#endif
