/* What the C interface (berth/plan.h, pool.h, recorder.h) has in common: statuses, their texts, structs of any version.
 *
 * Errors. Each call returns a status; a call that fails leaves its outputs and its handles' objects as they were, and
 * berth_error_text() says what was wrong. Nothing aborts, and no exception leaves. Handles are checked: one that is
 * null, was destroyed, or is of another kind is BERTH_NO_SUCH_HANDLE. What is destroyed during a call stays alive until
 * that call returns.
 *
 * Streams, pools and executors wait for work when they are destroyed, and for the calls of other threads that use them;
 * when the call that destroys one returns it is gone. Where that would wait for itself it fails, says so in
 * berth_error_text(), and the handle stays: in a host function (berth_stream_call), as far as the device tells (a
 * driver's own threads are not known), and for the pool and the stream of a request in its `pressure` callback.
 *
 * Stability. Structs grow at their end only, and their first field is their size as the caller compiled them: set it,
 * best by BERTH_INIT, and every other field to zero where it does not matter. What an older caller's struct lacks
 * counts as zero; what a newer caller's struct has more is BERTH_NEWER_CALLER unless it is zero. Numbers of enumerators
 * stay.
 */
#ifndef BERTH_STATUS_H
#define BERTH_STATUS_H

#include <stddef.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* A zeroed struct that knows its size: berth_buffer b = BERTH_INIT(berth_buffer); */
#define BERTH_INIT(type) \
  { .struct_size = sizeof(type) }

typedef enum berth_status {
  BERTH_OK = 0,
  BERTH_INVALID = 1,        /* an argument, or a problem, that means nothing */
  BERTH_NO_MEMORY = 2,      /* of the host or the device */
  BERTH_NO_SUCH_HANDLE = 3, /* null, destroyed, or of another kind */
  BERTH_NEWER_CALLER = 4,   /* asks for what this library does not know */
  BERTH_NO_OFFSETS = 5,     /* the plan is infeasible or unknown */
  BERTH_REFUSED = 6,        /* a verification or a certificate's check failed */
  BERTH_INTERNAL = 7,       /* a defect of Berth; the text says what to report */
  BERTH_LIMIT = 8,          /* a limit that the caller set would be passed */
  BERTH_NO_DEVICE = 9,      /* the device is not there, or its library is not */
  BERTH_UNSUPPORTED = 10,   /* the device cannot do this, or Berth was built without it */
  BERTH_DEVICE_FAILED = 11, /* a call to the device failed */
  BERTH_IO = 12             /* a file could not be written */
} berth_status;

/* What the last call of this thread that failed has against its arguments: one line without a newline, valid until the
 * next call of this thread; "" where it succeeded. */
const char* berth_error_text(void);
/* The index of the buffer, memory or pair that the text speaks of, or the number of bytes asked for; else SIZE_MAX. */
size_t berth_error_index(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
