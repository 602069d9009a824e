#include "device/cuda/library.hpp"

#include <dlfcn.h>

#include "device/process.hpp"

namespace berth::detail::cuda {
namespace {

// Returns the driver's own static text if it has one.
const char* explain(const functions& cu, status s, const char* otherwise) noexcept {
  const char* text = nullptr;
  return cu.cuGetErrorString(s, &text) == success && text != nullptr ? text : otherwise;
}

result<const functions*> load_once() {
  static functions cu;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return error{errc::no_such_device, "cuda: libcuda.so.1 (the driver) is not installed"};
#define BERTH_CUDA_LOAD(name, parameters)                               \
  cu.name = reinterpret_cast<decltype(cu.name)>(dlsym(library, #name)); \
  if (cu.name == nullptr) return error{errc::no_such_device, "cuda: the driver is too old: it has no " #name};
  BERTH_CUDA_FUNCTIONS(BERTH_CUDA_LOAD)
#undef BERTH_CUDA_LOAD
#define BERTH_CUDA_LOAD_OPTIONAL(name, parameters) cu.name = reinterpret_cast<decltype(cu.name)>(dlsym(library, #name));
  BERTH_CUDA_OPTIONAL(BERTH_CUDA_LOAD_OPTIONAL)
#undef BERTH_CUDA_LOAD_OPTIONAL
  const auto number = [](status s) { return static_cast<std::uint64_t>(s); };
  switch (const status s = cu.cuInit(0)) {
    case success: break;
    case stub_library:
      return error{errc::no_such_device, "cuda: libcuda.so.1 is the toolkit's stub, no driver", number(s)};
    case no_device: return error{errc::no_such_device, "cuda: the driver finds no device", number(s)};
    default:
      // A driver that does not start (no permission, another version than the kernel's) counts as absent.
      return error{errc::no_such_device, explain(cu, s, "cuda: the driver does not start"), number(s)};
  }
  return &cu;
}

}  // namespace

result<const functions*> load() {
  static const std::uint32_t process = process_generation();
  static const result<const functions*> loaded = load_once();
  if (loaded && process != process_generation()) return device_before_fork;
  return loaded;
}

error failure(status s, const char* what) noexcept {
  return {s == out_of_memory ? errc::out_of_memory : errc::device_failed, what, static_cast<std::uint64_t>(s)};
}

}  // namespace berth::detail::cuda
