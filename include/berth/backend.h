/* A device of your own: memory that Berth's pools, streams and arenas use through your functions, in C99 and C++.
 *
 *   static int my_allocate(void* user, uint64_t size, int32_t kind, void** block) { ... }
 *   static void my_free(void* user, void* block, uint64_t size, int32_t kind) { ... }
 *
 *   berth_backend mine = {0};
 *   mine.struct_size = sizeof mine;
 *   mine.name = "mine:0";
 *   mine.allocate = my_allocate;
 *   mine.free = my_free;
 *   berth_device_make(&mine, &device);    // C++: berth::device::make(mine)
 *
 * docs/device.md shows the whole path; examples/mmap_backend.h and vulkan_backend.hpp are two complete files.
 *
 * Addresses. A block's address is a number that you choose. The CPU need not reach it: Berth adds offsets to it and
 * compares it. Live blocks do not overlap, and no block starts at 0. A memory that has handles instead of addresses
 * numbers its own ranges, and finds handle and offset by the address (vulkan_backend.hpp: `locate`).
 *
 * Results. Functions return BERTH_OK, BERTH_NO_MEMORY or BERTH_UNSUPPORTED. Any other number is a failure of the
 * device; berth_error_index() and error::number give it without its sign. A function that fails changes nothing. An
 * exception counts as a failure, std::bad_alloc as BERTH_NO_MEMORY.
 *
 * Threads. Functions may be called from several threads at once, but not for one event that is recorded. They may not
 * call Berth for the same device. After a fork the child calls none of them.
 *
 * Errors. Berth checks each answer: a null, unaligned or overlapping block is BERTH_DEVICE_FAILED. */
#ifndef BERTH_BACKEND_H
#define BERTH_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "berth/status.h"
#include "berth/stream.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* Zero is the value of each member that is not set. The struct is copied. */
typedef struct berth_backend {
  size_t struct_size;      /* sizeof(berth_backend) */
  void* user;              /* the first argument of each function */
  const char* name;        /* copied; not empty */
  const char* description; /* copied; null: the name */
  uint64_t total_memory;   /* 0: unknown. A pool on virtual memory holds no more */
  uint64_t alignment;      /* of each block's start: a power of two up to 1 GiB; 0: 64 */
  uint64_t granule;        /* of virtual memory: a power of two; 0: there is none */
  uint64_t max_mappings;   /* that may exist at once; 0: no limit */
  int64_t host_accessible; /* 1: the CPU reads and writes blocks at their addresses */

  /* Required. `kind` is a berth_memory_kind; BERTH_UNSUPPORTED for a kind that you do not have. */
  int (*allocate)(void* user, uint64_t size, int32_t kind, void** block);
  void (*free)(void* user, void* block, uint64_t size, int32_t kind);
  /* Optional: the device closes with its last handle, stream, event and pool. Nothing is called afterwards. */
  void (*closed)(void* user);
  /* Optional: the CPU's address of an address inside a block, or null. Without it that is the address itself, for
   * pinned blocks and where host_accessible is 1. */
  void* (*host_address)(void* user, void* address);

  /* Virtual memory: all but `split`, and a granule, or none. Sizes, offsets and addresses are multiples of it.
   *
   * map: shows [offset, offset + size) of the handle's memory at an address inside a reserved range. `whole` handles
   * are mapped at offset 0 with their whole size only. One handle may be mapped at several addresses.
   * unmap: ends one or more whole mappings. The bytes stay.
   * split, optional: the handle keeps the first `at` bytes, *rest is a handle for the others. Mappings stay. */
  int (*reserve)(void* user, uint64_t size, void** address);
  void (*release)(void* user, void* address, uint64_t size);
  int (*create_physical)(void* user, uint64_t size, int whole, uint64_t* handle);
  void (*destroy_physical)(void* user, uint64_t handle, uint64_t size);
  int (*map)(void* user, void* address, uint64_t size, uint64_t handle, uint64_t offset);
  int (*unmap)(void* user, void* address, uint64_t size);
  int (*split)(void* user, uint64_t handle, uint64_t size, uint64_t at, uint64_t* rest);

  /* Queues and events: all but copy, fill and call, or none. Without them each stream is a thread of Berth's, which
   * copies between addresses that the CPU reaches.
   *
   * A queue is what berth_stream_native() gives, and what berth_stream_wrap() takes: queues of the program's own need
   * no other function, and are not destroyed. Work on a queue runs in order. Enqueuing does not wait for it.
   *
   * record: the event then stands for all work enqueued so far. An event may be recorded again.
   * wait: work enqueued on the queue from now on runs after the event's last record(), even if it is recorded again.
   * call: runs function(context) on a thread in queue order.
   * Errors of queued work are the next result of any function of that queue. */
  int (*create_queue)(void* user, void** queue);
  void (*destroy_queue)(void* user, void* queue); /* its work is done */
  int (*synchronize_queue)(void* user, void* queue);
  int (*query_queue)(void* user, void* queue, int* done);
  int (*create_event)(void* user, void** event);
  void (*destroy_event)(void* user, void* event); /* at any time: work that waits for it still does */
  int (*record)(void* user, void* queue, void* event);
  int (*wait)(void* user, void* queue, void* event);
  int (*query_event)(void* user, void* event, int* done);
  int (*synchronize_event)(void* user, void* event);
  int (*copy)(void* user, void* queue, void* to, const void* from, uint64_t size);
  int (*fill)(void* user, void* queue, void* to, unsigned char value, uint64_t size);
  int (*call)(void* user, void* queue, void (*function)(void* context), void* context);
} berth_backend;

/* Makes a device of it. Two calls make two devices. BERTH_INVALID: a wrong struct_size, a required function is null, a
 * group of functions is incomplete, or a number is none. BERTH_UNSUPPORTED: the struct sets members that this version
 * does not know. The text names the member. */
berth_status berth_device_make(const berth_backend* backend, berth_device** out);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
