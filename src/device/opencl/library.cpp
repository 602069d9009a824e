#include "device/opencl/library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "device/process.hpp"

namespace berth::detail::opencl {
namespace {

result<const functions*> load_once() {
  static functions table;
#ifdef __linux__
  // PoCL aborts the process if it cannot see the processors.
  if (access("/sys/devices/system/cpu", R_OK) != 0) {
    return error{errc::no_such_device, "opencl: /sys is not mounted, without which PoCL aborts"};
  }
#endif
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return error{errc::no_such_device, "opencl: libOpenCL.so.1 is not installed"};
#define BERTH_OPENCL_LOAD(name)                                                          \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(library, #name));            \
  if (table.name == nullptr) {                                                           \
    return error{errc::no_such_device, "opencl: libOpenCL.so.1 has no " #name " (2.0)"}; \
  }
  BERTH_OPENCL_FUNCTIONS(BERTH_OPENCL_LOAD)
#undef BERTH_OPENCL_LOAD
  return &table;
}

}  // namespace

result<const functions*> load() {
  static const std::uint32_t process = process_generation();
  static const result<const functions*> loaded = load_once();
  if (loaded && process != process_generation()) return device_before_fork;
  return loaded;
}

error failure(cl_int status, const char* what) noexcept {
  const bool memory = status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
                      status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
  return {memory ? errc::out_of_memory : errc::device_failed, what, static_cast<std::uint64_t>(-std::int64_t{status})};
}

}  // namespace berth::detail::opencl
