/* Devices and their streams in C99, as far as a pool's user needs them (berth/device says more about both).
 *
 * Errors, handles and structs of other versions: berth/status.h.
 *
 * Threads. Every function may be called from several threads at once. A stream that is destroyed waits for its work, so
 * not from within a stream's work (berth/status.h). */
#ifndef BERTH_STREAM_H
#define BERTH_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "berth/status.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct berth_device berth_device;
typedef struct berth_stream berth_stream;

typedef enum berth_memory_kind {
  BERTH_MEMORY_DEVICE = 0, /* the device's own */
  BERTH_MEMORY_PINNED = 1  /* page-locked host memory that the device reads and writes in place */
} berth_memory_kind;

/* "host", "null", "null:16GiB", "opencl:N", "cuda:N", "ascend:N", and with the words behind them that docs/device.md
 * lists ("host:huge"); null: "host". It closes with the last handle of it,
 * its streams and its pools. BERTH_NO_DEVICE, BERTH_UNSUPPORTED (built without it), BERTH_INVALID (not a name). */
berth_status berth_device_open(const char* name, berth_device** out);
/* Null does nothing. */
void berth_device_close(berth_device* device);

typedef struct berth_device_properties {
  size_t struct_size;
  uint64_t total_memory;   /* 0: unknown */
  uint64_t alignment;      /* of the start of a block of its own memory */
  uint64_t granule;        /* of physical memory; 0: no virtual memory */
  int32_t host_accessible; /* the host may dereference its addresses */
  int32_t simulated;       /* no real hardware behind it */
  const char* name;        /* these two are valid until the handle is closed */
  const char* description;
} berth_device_properties;
berth_status berth_device_describe(const berth_device* device, berth_device_properties* properties);

/* Registers `size` bytes of host memory that exist already: the device then reads and writes them in place, at
 * *device_address, until they are unregistered. They may not be freed before. BERTH_INVALID, and nothing changes: null,
 * no bytes, memory that is registered already or is the device's, on Ascend a start that is no multiple of 4096.
 * BERTH_UNSUPPORTED, BERTH_DEVICE_FAILED. */
berth_status berth_device_register(const berth_device* device, void* memory, uint64_t size, void** device_address);
/* By the device's address and the size. BERTH_INVALID: not registered so. */
berth_status berth_device_unregister(const berth_device* device, void* device_address, uint64_t size);

berth_status berth_stream_create(const berth_device* device, berth_stream** out);
/* Over the driver's own (CUstream, aclrtStream, cl_command_queue), which outlives it and is not destroyed by it. */
berth_status berth_stream_wrap(const berth_device* device, void* native, berth_stream** out);
/* Waits for the queued work. Null does nothing. */
void berth_stream_destroy(berth_stream* stream);
/* The driver's own, for its calls; null where there is none. */
berth_status berth_stream_native(const berth_stream* stream, void** native);

/* These enqueue and return at once. Between any two addresses that the device reaches; the ranges do not overlap. */
berth_status berth_stream_copy(berth_stream* stream, void* to, const void* from, uint64_t size);
berth_status berth_stream_fill(berth_stream* stream, void* to, unsigned char value, uint64_t size);
/* Runs function(context) on a host thread in stream order. It must not wait for streams, nor throw or jump out. */
berth_status berth_stream_call(berth_stream* stream, void (*function)(void* context), void* context);
/* Work enqueued on `stream` from now on runs after all that is enqueued on `other` now. Of one device. */
berth_status berth_stream_wait_for(berth_stream* stream, berth_stream* other);

/* Waits on the host; tells errors of queued work. Fails at once in a host function (berth_stream_call), as far as the
 * device tells: it might wait for itself. */
berth_status berth_stream_synchronize(berth_stream* stream);
/* Whether all work enqueued so far is done. */
berth_status berth_stream_query(berth_stream* stream, int* done);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
