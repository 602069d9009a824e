// The CUDA driver, opened at run time. The build needs neither its headers nor its library: the few types, constants
// and prototypes used here are declared below. Source: cuda.h of toolkit 13.0. Every name is the oldest one with the
// prototype used, so that old drivers have it too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/core/result.hpp"

namespace berth::detail::cuda {

using status = int;  // CUresult
using device_id = int;
using context = struct context_tag*;
using stream_handle = struct stream_tag*;
using event_handle = struct event_tag*;
using address = std::uint64_t;   // CUdeviceptr
using physical = std::uint64_t;  // CUmemGenericAllocationHandle

enum : status {
  success = 0,
  out_of_memory = 2,
  stub_library = 34,
  no_device = 100,
  invalid_handle = 400,
  not_ready = 600,
  context_destroyed = 709,
  implicit_capture = 906,
};

enum : int {  // CUdevice_attribute
  attribute_virtual_memory = 102,
};
inline constexpr unsigned host_alloc_portable = 1;
inline constexpr unsigned host_alloc_device_map = 2;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr int capture_none = 0;          // CUstreamCaptureStatus
inline constexpr int capture_mode_relaxed = 2;  // CUstreamCaptureMode
inline constexpr std::uintptr_t per_thread_default_stream = 2;

struct memory_location {  // CUmemLocation
  enum : int { on_device = 1 };
  int type = on_device;
  int id = 0;
};
struct allocation_properties {  // CUmemAllocationProp
  enum : int { pinned = 1 };
  int type = pinned;
  int handle_types = 0;
  memory_location location;
  void* windows_metadata = nullptr;
  unsigned char flags[8] = {};
};
struct access_description {  // CUmemAccessDesc
  enum : int { read_write = 3 };
  memory_location location;
  int flags = read_write;
};
static_assert(sizeof(memory_location) == 8 && sizeof(access_description) == 12);
static_assert(sizeof(void*) != 8 || sizeof(allocation_properties) == 32);

// Every function that the backend calls; expanded into the table below and into its loader. The two that name errors
// come first, so that later failures can be explained.
#define BERTH_CUDA_FUNCTIONS(X)                                                                                  \
  X(cuGetErrorName, (status, const char**))                                                                      \
  X(cuGetErrorString, (status, const char**))                                                                    \
  X(cuInit, (unsigned flags))                                                                                    \
  X(cuDriverGetVersion, (int* version))                                                                          \
  X(cuDeviceGetCount, (int* count))                                                                              \
  X(cuDeviceGet, (device_id*, int ordinal))                                                                      \
  X(cuDeviceGetName, (char* name, int size, device_id))                                                          \
  X(cuDeviceTotalMem_v2, (std::size_t * size, device_id))                                                        \
  X(cuDeviceGetAttribute, (int* value, int attribute, device_id))                                                \
  X(cuDevicePrimaryCtxRetain, (context*, device_id))                                                             \
  X(cuDevicePrimaryCtxRelease_v2, (device_id))                                                                   \
  X(cuCtxPushCurrent_v2, (context))                                                                              \
  X(cuCtxPopCurrent_v2, (context*))                                                                              \
  X(cuMemAlloc_v2, (address*, std::size_t))                                                                      \
  X(cuMemFree_v2, (address))                                                                                     \
  X(cuMemHostAlloc, (void**, std::size_t, unsigned flags))                                                       \
  X(cuMemFreeHost, (void*))                                                                                      \
  X(cuMemHostGetDevicePointer_v2, (address*, void*, unsigned flags))                                             \
  X(cuMemHostRegister_v2, (void*, std::size_t, unsigned flags))                                                  \
  X(cuMemHostUnregister, (void*))                                                                                \
  X(cuMemcpyAsync, (address to, address from, std::size_t, stream_handle))                                       \
  X(cuMemsetD8Async, (address, unsigned char, std::size_t, stream_handle))                                       \
  X(cuCtxSynchronize, ())                                                                                        \
  X(cuStreamCreate, (stream_handle*, unsigned flags))                                                            \
  X(cuStreamDestroy_v2, (stream_handle))                                                                         \
  X(cuStreamSynchronize, (stream_handle))                                                                        \
  X(cuStreamQuery, (stream_handle))                                                                              \
  X(cuStreamWaitEvent, (stream_handle, event_handle, unsigned flags))                                            \
  X(cuLaunchHostFunc, (stream_handle, void (*)(void*), void*))                                                   \
  X(cuEventCreate, (event_handle*, unsigned flags))                                                              \
  X(cuEventRecord, (event_handle, stream_handle))                                                                \
  X(cuEventQuery, (event_handle))                                                                                \
  X(cuEventSynchronize, (event_handle))                                                                          \
  X(cuEventDestroy_v2, (event_handle))                                                                           \
  X(cuMemGetAllocationGranularity, (std::size_t*, const allocation_properties*, int option))                     \
  X(cuMemAddressReserve, (address*, std::size_t, std::size_t alignment, address hint, unsigned long long flags)) \
  X(cuMemAddressFree, (address, std::size_t))                                                                    \
  X(cuMemCreate, (physical*, std::size_t, const allocation_properties*, unsigned long long flags))               \
  X(cuMemRelease, (physical))                                                                                    \
  X(cuMemMap, (address, std::size_t, std::size_t offset, physical, unsigned long long flags))                    \
  X(cuMemUnmap, (address, std::size_t))                                                                          \
  X(cuMemSetAccess, (address, std::size_t, const access_description*, std::size_t count))

// Functions that older drivers lack (before 9.2, 10.0, 10.1 and 12.0): null there.
#define BERTH_CUDA_OPTIONAL(X)                                 \
  X(cuStreamGetCtx, (stream_handle, context*))                 \
  X(cuStreamIsCapturing, (stream_handle, int* capture_status)) \
  X(cuThreadExchangeStreamCaptureMode, (int* mode))            \
  X(cuStreamGetId, (stream_handle, unsigned long long* id))

struct functions {
#define BERTH_CUDA_MEMBER(name, parameters) status(*name) parameters = nullptr;
  BERTH_CUDA_FUNCTIONS(BERTH_CUDA_MEMBER)
  BERTH_CUDA_OPTIONAL(BERTH_CUDA_MEMBER)
#undef BERTH_CUDA_MEMBER
};

// Loads and initialises the driver on the first call and keeps it. Errors: device_failed, and no_such_device (no
// library, a stub of it, no device in the machine, an old driver).
[[nodiscard]] result<const functions*> load();

// Returns the error of a status that is no success. `what` names the call.
[[nodiscard]] error failure(status s, const char* what) noexcept;

}  // namespace berth::detail::cuda
