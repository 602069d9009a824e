// The OpenCL device: shared virtual memory, so that addresses are pointers; in-order queues as streams.
//
// Device memory is coarse-grained SVM (the host may not touch it). Pinned memory is fine-grained SVM, which host and
// device use at the same address. Devices without it, and "opencl:N+alloc_host_ptr" anywhere, take a mapped buffer of
// CL_MEM_ALLOC_HOST_PTR. Copies use that in place, but kernels do not see it at that address.
//
// Starts follow CL_DEVICE_MEM_BASE_ADDR_ALIGN, so a block can be cut wherever sub-buffers could. clSVMAlloc is asked
// for its own alignment (0): PoCL 3.1 returns null for 4096. If that is less than the rule, the block is aligned by
// hand.
#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <vector>

#include "device/backend.hpp"
#include "device/opencl/library.hpp"
#include "device/opencl/queue.hpp"

namespace berth::detail {
namespace opencl {
namespace {

template <class T>
T device_info(const functions& cl, cl_device_id device, cl_device_info what, T fallback) noexcept {
  T value = fallback;
  return cl.clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : fallback;
}

std::string device_text(const functions& cl, cl_device_id device, cl_device_info what) {
  std::size_t size = 0;
  if (cl.clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "unknown";
  std::string text(size, '\0');
  cl.clGetDeviceInfo(device, what, size, text.data(), nullptr);
  text.resize(size - 1);  // the terminating zero
  return text;
}

// Returns the devices of all platforms, in the loader's order.
result<std::vector<cl_device_id>> all_devices(const functions& cl) {
  cl_uint platform_count = 0;
  cl.clGetPlatformIDs(0, nullptr, &platform_count);
  if (platform_count == 0) return error{errc::no_such_device, "opencl: no platform is installed"};
  std::vector<cl_platform_id> platforms(platform_count);
  if (const cl_int status = cl.clGetPlatformIDs(platform_count, platforms.data(), nullptr); status != CL_SUCCESS) {
    return failure(status, "opencl: platforms");
  }
  std::vector<cl_device_id> devices;
  for (cl_platform_id platform : platforms) {
    cl_uint count = 0;
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) continue;
    const std::size_t before = devices.size();
    devices.resize(before + count);
    const cl_int status = cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data() + before, nullptr);
    if (status != CL_SUCCESS) return failure(status, "opencl: devices");
  }
  return devices;
}

class opencl_device final : public device_backend {
 public:
  opencl_device(const functions& cl, cl_device_id device, std::string_view argument, bool host_pointer_buffers)
      : cl_{cl}, device_{device} {
    const auto svm = device_info<cl_device_svm_capabilities>(cl, device, CL_DEVICE_SVM_CAPABILITIES, 0);
    fine_grained_ = (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0 && !host_pointer_buffers;
    reaches_all_host_memory_ = (svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) != 0;
    has_svm_ = (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0;
    largest_block_ = device_info<cl_ulong>(cl, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, max_bytes);

    properties_.name.append("opencl:").append(argument);
    properties_.description = device_text(cl, device, CL_DEVICE_NAME);
    properties_.description.append(", ").append(device_text(cl, device, CL_DEVICE_VERSION));
    const cl_uint alignment_bits = device_info<cl_uint>(cl, device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024);
    properties_.rules = {.name = "opencl",
                         .start_alignment = std::max<bytes>(alignment_bits / 8, 1),
                         .source = "CL_DEVICE_MEM_BASE_ADDR_ALIGN of the device"};
    properties_.pinned_rules = properties_.rules;
    properties_.total_memory = device_info<cl_ulong>(cl, device, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
  }

  result<void> start() {
    if (!has_svm_) return error{errc::unsupported, "opencl: the device has no shared virtual memory"};
    cl_int status = CL_SUCCESS;
    context_ = cl_.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
    if (status != CL_SUCCESS) return failure(status, "opencl: no context");
    mapping_queue_ = cl_.clCreateCommandQueueWithProperties(context_, device_, nullptr, &status);
    if (status != CL_SUCCESS) return failure(status, "opencl: no command queue");
    return {};
  }

  ~opencl_device() override {
    if (!works_here()) return;
    if (mapping_queue_ != nullptr) cl_.clReleaseCommandQueue(mapping_queue_);
    if (context_ != nullptr) cl_.clReleaseContext(context_);
  }

  result<void*> allocate(bytes size, memory_kind kind) override {
    const rules::placement& rules = kind == memory_kind::device ? properties_.rules : properties_.pinned_rules;
    std::map<void*, memory> note;  // made ahead, so that no step fails after the driver's success
    note.emplace(nullptr, memory{});
    auto got = take(size, kind);
    if (!got) return got.error();
    if (!is_aligned(reinterpret_cast<std::uintptr_t>(got->start), rules.start_alignment)) {
      give_back(*got);
      got = take(size + rules.start_alignment - 1, kind);
      if (!got) return got.error();
    }
    const auto start = align_up(reinterpret_cast<std::uintptr_t>(got->start), rules.start_alignment);
    void* const block = reinterpret_cast<void*>(start);
    auto entry = note.extract(note.begin());
    entry.key() = block;
    entry.mapped() = *got;
    const std::lock_guard lock{mutex_};
    blocks_.insert(std::move(entry));
    return block;
  }

  void free(void* block, bytes, memory_kind) noexcept override {
    std::unique_lock lock{mutex_};
    const auto entry = blocks_.extract(block);
    lock.unlock();
    give_back(entry.mapped());
  }

  bool reaches_foreign_memory() const noexcept override { return reaches_all_host_memory_; }

  result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) override {
    return queue::create(cl_, context_, device_, std::move(clock));
  }
  result<std::unique_ptr<backend_queue>> wrap_queue(void* native, std::shared_ptr<stream_clock> clock) override {
    return queue::wrap(cl_, context_, static_cast<cl_command_queue>(native), std::move(clock));
  }
  [[nodiscard]] void* native() const noexcept override { return context_; }
  result<std::unique_ptr<backend_event>> create_event() override {
    return std::unique_ptr<backend_event>{new queue_event{cl_}};
  }

 private:
  // OpenCL's allocation: shared virtual memory, or a mapped buffer.
  struct memory {
    void* start = nullptr;
    cl_mem buffer = nullptr;
  };

  result<memory> take(bytes size, memory_kind kind) {
    if (size > largest_block_) return error{errc::out_of_memory, "opencl: more than one block may have", size};
    if (kind == memory_kind::pinned && !fine_grained_) return take_mapped(size);
    const cl_svm_mem_flags flags =
        CL_MEM_READ_WRITE | (kind == memory_kind::pinned ? CL_MEM_SVM_FINE_GRAIN_BUFFER : cl_svm_mem_flags{0});
    void* start = cl_.clSVMAlloc(context_, flags, size, 0);
    if (start == nullptr) return error{errc::out_of_memory, "opencl: out of memory", size};
    return memory{start, nullptr};
  }

  result<memory> take_mapped(bytes size) {
    cl_int status = CL_SUCCESS;
    cl_mem buffer = cl_.clCreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, nullptr, &status);
    if (status != CL_SUCCESS) return failure(status, "opencl: out of pinned memory");
    const std::lock_guard lock{mutex_};
    void* start = cl_.clEnqueueMapBuffer(mapping_queue_, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size, 0,
                                         nullptr, nullptr, &status);
    if (status != CL_SUCCESS) {
      cl_.clReleaseMemObject(buffer);
      return failure(status, "opencl: pinned memory");
    }
    return memory{start, buffer};
  }

  void give_back(const memory& m) noexcept {
    if (m.buffer == nullptr) {
      cl_.clSVMFree(context_, m.start);
      return;
    }
    const std::lock_guard lock{mutex_};
    cl_.clEnqueueUnmapMemObject(mapping_queue_, m.buffer, m.start, 0, nullptr, nullptr);
    cl_.clFinish(mapping_queue_);
    cl_.clReleaseMemObject(m.buffer);
  }

  const functions& cl_;
  cl_device_id device_;
  cl_context context_ = nullptr;
  cl_command_queue mapping_queue_ = nullptr;  // for buffers that are mapped and unmapped
  bool has_svm_ = false;
  bool fine_grained_ = false;
  bool reaches_all_host_memory_ = false;
  bytes largest_block_ = max_bytes;
  std::mutex mutex_;  // guards the queue above and the fields below
  std::map<void*, memory> blocks_;
};

}  // namespace
}  // namespace opencl

result<std::shared_ptr<device_backend>> open_opencl(std::string_view argument) {
  constexpr std::string_view host_pointer_suffix = "+alloc_host_ptr";
  std::string_view number = argument;
  const bool host_pointer_buffers = number.ends_with(host_pointer_suffix);
  if (host_pointer_buffers) number.remove_suffix(host_pointer_suffix.size());
  std::size_t ordinal = 0;
  const auto [rest, wrong] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
  if (wrong != std::errc{} || rest != number.data() + number.size()) {
    return error{errc::invalid_input, "opencl: the device's number follows the colon"};
  }
  const auto loaded = opencl::load();
  if (!loaded) return loaded.error();
  const opencl::functions& cl = **loaded;
  const auto devices = opencl::all_devices(cl);
  if (!devices) return devices.error();
  if (ordinal >= devices->size()) return error{errc::no_such_device, "opencl: no device of this number", ordinal};
  auto opened = std::make_shared<opencl::opencl_device>(cl, (*devices)[ordinal], argument, host_pointer_buffers);
  if (auto started = opened->start(); !started) return started.error();
  return std::shared_ptr<device_backend>{std::move(opened)};
}

}  // namespace berth::detail
