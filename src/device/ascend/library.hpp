// AscendCL (libascendcl.so of CANN), opened at run time. The build needs neither its headers nor its library: the few
// types, constants and prototypes used here are declared below. Source: acl_rt.h, acl_base_rt.h and rt_error_codes.h of
// the CANN runtime (gitcode cann/runtime at 681ef761, the development line after CANN 8.5). Names differ between
// versions of CANN. A name that an older one may lack is optional, and the backend works without it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"

// The operators of the library berth_op call these too.
#pragma GCC visibility push(default)
namespace berth::detail::ascend {

using status = int;  // aclError
using context = struct context_tag*;
using stream_handle = struct stream_tag*;
using event_handle = struct event_tag*;
using physical = struct physical_tag*;  // aclrtDrvMemHandle

enum : status {
  success = 0,
  uninitialised = 100001,
  repeated_initialise = 100002,
  stub_library = 100039,
  parameter_invalid = 107000,
  invalid_device = 107001,
  context_null = 107002,
  wait_timeout = 107019,
  host_out_of_memory = 200000,
  api_unsupported = 200001,
  feature_unsupported = 200006,
  runtime_unsupported = 207000,
  out_of_memory = 207001,
  no_device = 207004,
  device_out_of_memory = 207018,
};

enum policy : int {  // aclrtMemMallocPolicy
  huge_pages_first = 0,
  huge_pages_only = 1,
  small_pages_only = 2,
  for_peers = 3,          // + those above
  low_bandwidth = 0x100,  // these two beside one of those above, with aclrtMallocWithCfg alone
  high_bandwidth = 0x1000,
};
enum copy_kind : int { host_to_device = 1, device_to_host = 2, device_to_device = 3 };  // aclrtMemcpyKind
enum stream_status : int { stream_complete = 0 };                                       // aclrtStreamStatus
enum recorded_status : int { event_not_ready = 0, event_complete = 1 };  // the reverse of aclrtStreamStatus
inline constexpr std::uint32_t event_sync = 1;                           // event flag: streams may wait for it
inline constexpr int hbm = 1;                                            // aclrtMemAttr; DDR on chips without HBM
inline constexpr int run_on_device = 0;                                  // aclrtRunMode: the program runs on the chip
inline constexpr int register_mapped = 0;                                // aclrtHostRegisterType
inline constexpr int callback_blocks = 1;                                // aclrtCallbackBlockType
inline constexpr int granularity_minimum = 0;
inline constexpr std::uint64_t reserve_huge_pages = 1;  // of aclrtReserveMemAddress; 0: pages of 4 KB

struct memory_location {  // aclrtMemLocation: the number first, where CUDA has the type first
  enum : int { on_host = 0, on_device = 1 };
  std::uint32_t id = 0;
  int type = on_device;
};
struct physical_properties {  // aclrtPhysicalMemProp
  enum : int { hbm_huge = 4 };
  int handle_type = 0;
  int allocation_type = 0;  // pinned
  int memory = hbm_huge;
  memory_location location;
  std::uint64_t reserved = 0;
};
struct pointer_attributes {  // aclrtPtrAttributes
  memory_location location;
  std::uint32_t page_size = 0;
  std::uint32_t reserved[4] = {};
};
static_assert(sizeof(memory_location) == 8 && sizeof(pointer_attributes) == 28);
static_assert(sizeof(physical_properties) == 32 && offsetof(physical_properties, reserved) == 24);

// Every function that the backend calls; expanded into the table below and into its loader. X(result, name, types)
#define BERTH_ASCEND_REQUIRED(X)                                                                                    \
  X(status, aclInit, (const char* configuration))                                                                   \
  X(status, aclFinalize, ())                                                                                        \
  X(status, aclrtGetDeviceCount, (std::uint32_t*))                                                                  \
  X(status, aclrtSetDevice, (std::int32_t))                                                                         \
  X(status, aclrtResetDevice, (std::int32_t))                                                                       \
  X(status, aclrtGetCurrentContext, (context*))                                                                     \
  X(status, aclrtSetCurrentContext, (context))                                                                      \
  X(status, aclrtGetMemInfo, (int attribute, std::size_t* free, std::size_t* total))                                \
  X(status, aclrtMalloc, (void**, std::size_t, int policy))                                                         \
  X(status, aclrtFree, (void*))                                                                                     \
  X(status, aclrtMallocHost, (void**, std::size_t))                                                                 \
  X(status, aclrtFreeHost, (void*))                                                                                 \
  X(status, aclrtMemcpy, (void* to, std::size_t room, const void* from, std::size_t, int kind))                     \
  X(status, aclrtMemcpyAsync, (void* to, std::size_t room, const void* from, std::size_t, int kind, stream_handle)) \
  X(status, aclrtMemsetAsync, (void*, std::size_t room, std::int32_t value, std::size_t, stream_handle))            \
  X(status, aclrtCreateStream, (stream_handle*))                                                                    \
  X(status, aclrtDestroyStream, (stream_handle))                                                                    \
  X(status, aclrtSynchronizeStream, (stream_handle))                                                                \
  X(status, aclrtStreamQuery, (stream_handle, int*))                                                                \
  X(status, aclrtStreamWaitEvent, (stream_handle, event_handle))                                                    \
  X(status, aclrtCreateEvent, (event_handle*))                                                                      \
  X(status, aclrtDestroyEvent, (event_handle))                                                                      \
  X(status, aclrtRecordEvent, (event_handle, stream_handle))                                                        \
  X(status, aclrtQueryEventStatus, (event_handle, int*))                                                            \
  X(status, aclrtSynchronizeEvent, (event_handle))                                                                  \
  X(status, aclrtLaunchCallback, (void (*)(void*), void*, int block, stream_handle))                                \
  X(status, aclrtSubscribeReport, (std::uint64_t thread, stream_handle))                                            \
  X(status, aclrtUnSubscribeReport, (std::uint64_t thread, stream_handle))                                          \
  X(status, aclrtProcessReport, (std::int32_t milliseconds))

#define BERTH_ASCEND_OPTIONAL(X)                                                                                       \
  X(const char*, aclGetRecentErrMsg, ())                                                                               \
  X(const char*, aclrtGetSocName, ())                                                                                  \
  X(status, aclrtGetRunMode, (int*))                                                                                   \
  X(status, aclrtPointerGetAttributes, (const void*, pointer_attributes*))                                             \
  X(status, aclrtHostRegister, (void*, std::uint64_t, int type, void** on_device))                                     \
  X(status, aclrtHostUnregister, (void*))                                                                              \
  X(status, aclrtCreateEventExWithFlag, (event_handle*, std::uint32_t flags))                                          \
  X(status, aclrtLaunchHostFunc, (stream_handle, void (*)(void*), void*))                                              \
  X(status, aclrtMemGetAllocationGranularity, (physical_properties*, int option, std::size_t*))                        \
  X(status, aclrtReserveMemAddress, (void**, std::size_t, std::size_t alignment, void* expected, std::uint64_t flags)) \
  X(status, aclrtReleaseMemAddress, (void*))                                                                           \
  X(status, aclrtMallocPhysical, (physical*, std::size_t, const physical_properties*, std::uint64_t flags))            \
  X(status, aclrtFreePhysical, (physical))                                                                             \
  X(status, aclrtMallocAlign32, (void**, std::size_t, int policy))                                                     \
  X(status, aclrtMallocCached, (void**, std::size_t, int policy))                                                      \
  X(status, aclrtMallocWithCfg, (void**, std::size_t, int policy, void* configuration))                                \
  X(status, aclrtMemFlush, (void*, std::size_t))                                                                       \
  X(status, aclrtMemInvalidate, (void*, std::size_t))                                                                  \
  X(status, acldvppMalloc, (void**, std::size_t))                                                                      \
  X(status, acldvppFree, (void*))                                                                                      \
  X(std::int32_t, hi_mpi_dvpp_malloc, (std::uint32_t device, void**, std::uint64_t))                                   \
  X(std::int32_t, hi_mpi_dvpp_free, (void*))                                                                           \
  X(status, aclrtMapMem, (void*, std::size_t, std::size_t offset, physical, std::uint64_t flags))                      \
  X(status, aclrtUnmapMem, (void*))

struct functions {
#define BERTH_ASCEND_MEMBER(type, name, parameters) type(*name) parameters = nullptr;
  BERTH_ASCEND_REQUIRED(BERTH_ASCEND_MEMBER)
  BERTH_ASCEND_OPTIONAL(BERTH_ASCEND_MEMBER)
#undef BERTH_ASCEND_MEMBER
  bool is_simulated = false;  // the library is simulator/ascend

  [[nodiscard]] bool has_virtual_memory() const noexcept {
    return aclrtMemGetAllocationGranularity != nullptr && aclrtReserveMemAddress != nullptr &&
           aclrtReleaseMemAddress != nullptr && aclrtMallocPhysical != nullptr && aclrtFreePhysical != nullptr &&
           aclrtMapMem != nullptr && aclrtUnmapMem != nullptr;
  }
};

// Loads and initialises AscendCL on the first call and keeps it. Errors: no_such_device (no library, a stub of it, an
// old one, one that does not start).
[[nodiscard]] result<const functions*> load();

// Every open device is a user of the library. The process's end or the last device's close, whichever comes later,
// calls aclFinalize, since no device may be reset after it. It is never called if another part of the process called
// aclInit before Berth.
void add_user() noexcept;
void remove_user() noexcept;

// Returns a status that is no success as an error. The text is `what` followed by AscendCL's explanation on this
// thread. AscendCL's texts are temporary, but an error's text must stay valid. So the first 64 of a process are kept;
// later errors have `what` alone.
[[nodiscard]] error failure(const functions& acl, status s, const char* what) noexcept;
[[nodiscard]] result<void> checked(const functions& acl, status s, const char* what) noexcept;
// Drops the text of an unreported failure: it must not be taken for that of a later one.
void forget_text(const functions& acl) noexcept;
// Returns failure() for a request of `size` bytes.
[[nodiscard]] error failed_allocation(const functions& acl, status s, bytes size) noexcept;

// Makes the device's context current on this thread during its life. Contexts belong to threads; the previous one is
// restored. A thread without one keeps the device's, since AscendCL cannot restore none.
class current_context {
 public:
  current_context(const functions& acl, context c) noexcept;
  current_context(const current_context&) = delete;
  current_context& operator=(const current_context&) = delete;
  ~current_context();

 private:
  const functions& acl_;
  context before_ = nullptr;  // null: none to restore
};

}  // namespace berth::detail::ascend
#pragma GCC visibility pop
