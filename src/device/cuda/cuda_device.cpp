// The CUDA device over the driver API.
//
// It uses the primary context of the device, so it shares memory with other users in the process (the runtime API,
// libraries). A thread may have any context current: every call pushes the device's context and pops it again.
//
// Captures: the usual (global) mode of a stream's capture affects all threads of the process. Calls such as cuMemAlloc
// or cuEventQuery on any thread break the capture, unless their thread is in the relaxed mode. So each of Berth's calls
// puts its thread into that mode meanwhile. A captured stream itself is never queried or ordered: that always breaks
// its capture.
//
// Virtual memory: cuMemMap takes no offset into physical memory (the parameter must be 0) and unmaps whole mappings
// only. Hence the granule_table.
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/library.hpp"
#include "device/driver.hpp"

namespace berth::detail {
namespace cuda {
namespace {

// Makes the device's context current on this thread during its life, and keeps the thread from breaking captures.
class current_context {
 public:
  current_context(const functions& cu, context c) noexcept : cu_{cu}, pushed_{cu.cuCtxPushCurrent_v2(c) == success} {
    exchange_capture_mode();
  }
  current_context(const current_context&) = delete;
  current_context& operator=(const current_context&) = delete;
  ~current_context() {
    exchange_capture_mode();
    context popped = nullptr;
    if (pushed_) cu_.cuCtxPopCurrent_v2(&popped);
  }

 private:
  void exchange_capture_mode() noexcept {
    if (cu_.cuThreadExchangeStreamCaptureMode != nullptr) cu_.cuThreadExchangeStreamCaptureMode(&mode_);
  }

  const functions& cu_;
  bool pushed_;  // if false, the next call reports the reason
  int mode_ = capture_mode_relaxed;
};

address number(const void* p) noexcept {
  return static_cast<address>(reinterpret_cast<std::uintptr_t>(p));
}
void* pointer(address a) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(a));
}
result<void> checked(status s, const char* what) noexcept {
  if (s != success) return failure(s, what);
  return {};
}

class cuda_event final : public backend_event {
 public:
  cuda_event(const functions& cu, context c) noexcept : cu_{cu}, context_{c} {}
  ~cuda_event() override {
    if (event_ == nullptr) return;
    const current_context current{cu_, context_};
    cu_.cuEventDestroy_v2(event_);
  }
  result<void> start() {
    const current_context current{cu_, context_};
    return checked(cu_.cuEventCreate(&event_, event_disable_timing), "cuda: no event");
  }
  result<bool> query() override {
    const current_context current{cu_, context_};
    const status s = cu_.cuEventQuery(event_);
    if (s != success && s != not_ready) return failure(s, "cuda: work before the event failed");
    return s == success;
  }
  result<void> synchronize() override {
    const current_context current{cu_, context_};
    return checked(cu_.cuEventSynchronize(event_), "cuda: work before the event failed");
  }
  [[nodiscard]] event_handle handle() const noexcept { return event_; }

 private:
  const functions& cu_;
  context context_;
  event_handle event_ = nullptr;
};

class cuda_queue final : public backend_queue {
 public:
  cuda_queue(const functions& cu, context c) noexcept : cu_{cu}, context_{c} {}
  ~cuda_queue() override {
    const current_context current{cu_, context_};
    if (state_ != state::unopened && can_be_asked().value_or(false)) cu_.cuStreamSynchronize(stream_);
    if (state_ == state::ours) cu_.cuStreamDestroy_v2(stream_);
  }
  result<void> start() {
    const current_context current{cu_, context_};
    // Not ordered with the legacy default stream, which other libraries may use.
    auto made = checked(cu_.cuStreamCreate(&stream_, stream_non_blocking), "cuda: no stream");
    if (made) state_ = state::ours;
    return made;
  }
  result<void> wrap(stream_handle foreign) {
    const current_context current{cu_, context_};
    context of = context_;
    if (foreign != nullptr && cu_.cuStreamGetCtx != nullptr) {
      if (const status s = cu_.cuStreamGetCtx(foreign, &of); s != success) return failure(s, "cuda: no such stream");
    }
    if (of != context_) return error{errc::invalid_input, "cuda: a stream of another context than the primary one"};
    unsigned long long id = 0;
    if (foreign != nullptr && cu_.cuStreamGetId != nullptr && cu_.cuStreamGetId(foreign, &id) == success) id_ = id;
    stream_ = foreign;
    state_ = state::foreign;
    return {};
  }

  result<void> copy(void* to, const void* from, bytes size) override {
    const current_context current{cu_, context_};
    return checked(cu_.cuMemcpyAsync(number(to), number(from), size, stream_), "cuda: copy");
  }
  result<void> fill(void* to, std::byte value, bytes size) override {
    const current_context current{cu_, context_};
    return checked(cu_.cuMemsetD8Async(number(to), std::to_integer<unsigned char>(value), size, stream_), "cuda: fill");
  }
  result<void> call(void (*function)(void*), void* argument) override {
    const current_context current{cu_, context_};
    return checked(cu_.cuLaunchHostFunc(stream_, function, argument), "cuda: host function");
  }
  result<void> record(backend_event& e, std::uint64_t) override {
    const current_context current{cu_, context_};
    const auto there = can_be_asked();
    if (!there) return there.error();
    if (!*there) return {};  // reached, or ordered as by its earlier record()
    return checked(cu_.cuEventRecord(static_cast<cuda_event&>(e).handle(), stream_), "cuda: event");
  }
  result<void> wait(backend_event& e) override {
    const current_context current{cu_, context_};
    const auto there = can_be_asked();
    if (!there) return there.error();
    if (!*there) return destroyed;
    return checked(cu_.cuStreamWaitEvent(stream_, static_cast<cuda_event&>(e).handle(), 0), "cuda: wait");
  }
  result<void> synchronize() override {
    const current_context current{cu_, context_};
    const auto there = can_be_asked();
    if (!there) return there.error();
    if (!*there) return {};
    return checked(cu_.cuStreamSynchronize(stream_), "cuda: queued work failed");
  }
  result<bool> query() override {
    const current_context current{cu_, context_};
    const auto there = can_be_asked();
    if (!there) return there.error();
    if (!*there) return true;
    const status s = cu_.cuStreamQuery(stream_);
    if (s != success && s != not_ready) return failure(s, "cuda: queued work failed");
    return s == success;
  }

  [[nodiscard]] bool refuses(const error& e) const noexcept override { return e == captured || e == destroyed; }
  [[nodiscard]] void* native() const noexcept override { return stream_; }
  result<void> follow_native() override {
    const current_context current{cu_, context_};
    const auto there = follow();
    if (!there) return there.error();
    if (!*there) return destroyed;
    return {};
  }

 private:
  static constexpr error destroyed{errc::device_failed, "cuda: the stream was destroyed"};
  static constexpr error captured{errc::device_failed, "cuda: the stream is being captured"};
  static constexpr std::uint64_t no_stream = std::numeric_limits<std::uint64_t>::max();

  // Returns true if the handle still has a stream; after a stream that ended, all its work is done. CUDA's documents
  // leave the id query of a destroyed stream undefined, but there is no other query. Several threads may detect it at
  // once: each waits before it returns.
  [[nodiscard]] result<bool> follow() noexcept {
    const std::uint64_t known = id_.load(std::memory_order_acquire);
    if (known == 0) return true;
    unsigned long long id = 0;
    const status asked = cu_.cuStreamGetId(stream_, &id);
    const bool went = asked == invalid_handle || asked == context_destroyed;
    if (asked != success && !went) return failure(asked, "cuda: the stream cannot be told from others");
    const std::uint64_t now = went ? no_stream : id;
    if (now != known) {
      if (const status s = cu_.cuCtxSynchronize(); s != success) {
        return failure(s, "cuda: the stream went, and its work cannot be waited for");
      }
      id_.store(now, std::memory_order_release);
    }
    return now != no_stream;
  }
  [[nodiscard]] result<bool> can_be_asked() noexcept {
    auto there = follow();
    if (!there || !*there) return there;
    if (auto ok = not_captured(); !ok) return ok.error();
    return true;
  }
  [[nodiscard]] result<void> not_captured() const noexcept {
    int capture = capture_none;
    if (cu_.cuStreamIsCapturing == nullptr) return {};
    const status s = cu_.cuStreamIsCapturing(stream_, &capture);
    // The legacy default stream is ordered with blocking streams, and cannot be queried while one of them is captured.
    if (s == implicit_capture) return captured;
    if (s != success) return failure(s, "cuda: a capture");
    if (capture == capture_none) return {};
    return captured;
  }

  enum class state { unopened, ours, foreign };
  const functions& cu_;
  context context_;
  stream_handle stream_ = nullptr;
  state state_ = state::unopened;
  std::atomic<std::uint64_t> id_{0};  // the driver's, of foreign streams; 0: it has none; no_stream: it is destroyed
};

class cuda_device final : public device_backend {
 public:
  explicit cuda_device(const functions& cu) noexcept : cu_{cu} {}
  ~cuda_device() override {
    if (context_ != nullptr && works_here()) cu_.cuDevicePrimaryCtxRelease_v2(device_);
  }

  result<void> start(int ordinal) {
    if (auto ok = checked(cu_.cuDeviceGet(&device_, ordinal), "cuda: device"); !ok) return ok;
    if (auto ok = checked(cu_.cuDevicePrimaryCtxRetain(&context_, device_), "cuda: no context"); !ok) return ok;
    char name[128] = "CUDA device";
    cu_.cuDeviceGetName(name, sizeof name, device_);
    int version = 0;
    cu_.cuDriverGetVersion(&version);
    properties_.name.append("cuda:").append(std::to_string(ordinal));
    properties_.description.append(name).append(", driver for CUDA ").append(std::to_string(version / 1000));
    properties_.description.append(".").append(std::to_string(version % 1000 / 10));
    properties_.rules = {.name = "cuda",
                         .start_alignment = 256,
                         .source = "CUDA C++ programming guide: allocations are aligned to at least 256 bytes"};
    properties_.pinned_rules = properties_.rules;
    std::size_t total = 0;
    if (cu_.cuDeviceTotalMem_v2(&total, device_) == success) properties_.total_memory = total;
    start_virtual_memory();
    return {};
  }

  result<void*> allocate(bytes size, memory_kind kind) override {
    const current_context current{cu_, context_};
    if (kind == memory_kind::pinned) return allocate_pinned(size);
    address block = 0;
    if (const status s = cu_.cuMemAlloc_v2(&block, size); s != success) return failed_allocation(s, size);
    return pointer(block);
  }

  void free(void* block, bytes, memory_kind kind) noexcept override {
    const current_context current{cu_, context_};
    if (kind == memory_kind::device) {
      cu_.cuMemFree_v2(number(block));
      return;
    }
    std::unique_lock lock{mutex_};
    const auto entry = pinned_.extract(number(block));
    lock.unlock();
    cu_.cuMemFreeHost(entry.mapped());
  }

  result<void*> register_memory(void* memory, bytes size) override {
    const current_context current{cu_, context_};
    std::map<address, void*> note;
    note.emplace(0, memory);
    // The flags of registration have the numbers of those of cuMemHostAlloc.
    const status s = cu_.cuMemHostRegister_v2(memory, size, host_alloc_portable | host_alloc_device_map);
    if (s != success) return failure(s, "cuda: the memory cannot be registered");
    address on_device = 0;
    if (const status mapped = cu_.cuMemHostGetDevicePointer_v2(&on_device, memory, 0); mapped != success) {
      cu_.cuMemHostUnregister(memory);
      return failure(mapped, "cuda: registered memory without a device address");
    }
    auto entry = note.extract(note.begin());
    entry.key() = on_device;
    const std::lock_guard lock{mutex_};
    pinned_.insert(std::move(entry));
    return pointer(on_device);
  }
  void unregister_memory(void* device_address, bytes) noexcept override {
    const current_context current{cu_, context_};
    std::unique_lock lock{mutex_};
    const auto entry = pinned_.extract(number(device_address));
    lock.unlock();
    cu_.cuMemHostUnregister(entry.mapped());
  }

  void* host_address(void* inside, memory_kind kind) noexcept override {
    if (kind != memory_kind::pinned) return nullptr;
    const std::lock_guard lock{mutex_};
    const auto block = std::prev(pinned_.upper_bound(number(inside)));
    return static_cast<std::byte*>(block->second) + (number(inside) - block->first);
  }

  result<void*> reserve(bytes size) override {
    const current_context current{cu_, context_};
    address range = 0;
    const status s = cu_.cuMemAddressReserve(&range, size, 0, 0, 0);
    if (s != success) return failed_allocation(s, size);
    return pointer(range);
  }
  void release(void* range, bytes size) noexcept override {
    const current_context current{cu_, context_};
    cu_.cuMemAddressFree(number(range), size);
  }

  result<std::uint64_t> create_physical(bytes size, physical_form form) override {
    const current_context current{cu_, context_};
    auto entry = granule_table::make(size, properties_.granule, form);
    auto& [each, handles] = entry.mapped();
    const allocation_properties wanted = on_this_device();
    while (handles.size() * each < size) {
      physical one = 0;
      if (const status s = cu_.cuMemCreate(&one, each, &wanted, 0); s != success) {
        for (const physical made : handles) cu_.cuMemRelease(made);
        return failed_allocation(s, size);
      }
      handles.push_back(one);
    }
    return physicals_.add(std::move(entry));
  }
  result<std::uint64_t> split_physical(std::uint64_t handle, bytes, bytes at) override {
    return physicals_.split(handle, at);
  }
  void destroy_physical(std::uint64_t handle, bytes) noexcept override {
    const current_context current{cu_, context_};
    for (const physical one : physicals_.take(handle)) cu_.cuMemRelease(one);
  }

  result<void> map(void* range, bytes size, std::uint64_t handle, bytes offset) override {
    const current_context current{cu_, context_};
    // The handle is not destroyed while it is mapped.
    const auto& [each, handles] = physicals_.find(handle);
    const physical* piece = handles.data() + offset / each;
    const address start = number(range);
    for (bytes done = 0; done < size; done += each) {
      if (const status s = cu_.cuMemMap(start + done, each, 0, *piece++, 0); s != success) {
        if (done != 0) cu_.cuMemUnmap(start, done);
        return failure(s, "cuda: map");
      }
    }
    const access_description access{.location = {.id = device_}};
    if (const status s = cu_.cuMemSetAccess(start, size, &access, 1); s != success) {
      cu_.cuMemUnmap(start, size);
      return failure(s, "cuda: access to mapped memory");
    }
    return {};
  }
  result<void> unmap(void* range, bytes size) override {
    const current_context current{cu_, context_};
    return checked(cu_.cuMemUnmap(number(range), size), "cuda: unmap");
  }

  result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock>) override {
    auto made = std::make_unique<cuda_queue>(cu_, context_);
    if (auto ok = made->start(); !ok) return ok.error();
    return std::unique_ptr<backend_queue>{std::move(made)};
  }
  result<std::unique_ptr<backend_queue>> wrap_queue(void* native, std::shared_ptr<stream_clock>) override {
    if (reinterpret_cast<std::uintptr_t>(native) == per_thread_default_stream) {
      return error{errc::invalid_input, "cuda: the per-thread default stream is another one on every thread"};
    }
    auto made = std::make_unique<cuda_queue>(cu_, context_);
    if (auto ok = made->wrap(static_cast<stream_handle>(native)); !ok) return ok.error();
    return std::unique_ptr<backend_queue>{std::move(made)};
  }
  result<std::unique_ptr<backend_event>> create_event() override {
    auto made = std::make_unique<cuda_event>(cu_, context_);
    if (auto ok = made->start(); !ok) return ok.error();
    return std::unique_ptr<backend_event>{std::move(made)};
  }
  [[nodiscard]] void* native() const noexcept override { return context_; }

 private:
  static error failed_allocation(status s, bytes size) noexcept {
    if (s == out_of_memory) return {errc::out_of_memory, "cuda: out of memory", size};
    return failure(s, "cuda: allocation");
  }

  [[nodiscard]] allocation_properties on_this_device() const noexcept { return {.location = {.id = device_}}; }

  void start_virtual_memory() noexcept {
    int supported = 0;
    cu_.cuDeviceGetAttribute(&supported, attribute_virtual_memory, device_);
    if (supported == 0) return;
    const current_context current{cu_, context_};
    const allocation_properties wanted = on_this_device();
    std::size_t granule = 0;
    constexpr int minimum = 0;  // CU_MEM_ALLOC_GRANULARITY_MINIMUM
    if (cu_.cuMemGetAllocationGranularity(&granule, &wanted, minimum) != success || granule == 0) return;
    properties_.virtual_memory = true;
    properties_.granule = granule;
    properties_.max_mappings = std::numeric_limits<std::size_t>::max();  // the driver names no limit
  }

  result<void*> allocate_pinned(bytes size) {
    std::map<address, void*> note;  // made ahead, so that no step fails after the driver's success
    note.emplace(0, nullptr);
    void* host = nullptr;
    const status s = cu_.cuMemHostAlloc(&host, size, host_alloc_portable | host_alloc_device_map);
    if (s != success) return failed_allocation(s, size);
    address block = 0;
    if (const status mapped = cu_.cuMemHostGetDevicePointer_v2(&block, host, 0); mapped != success) {
      cu_.cuMemFreeHost(host);
      return failure(mapped, "cuda: pinned memory without a device address");
    }
    auto entry = note.extract(note.begin());
    entry.key() = block;
    entry.mapped() = host;
    const std::lock_guard lock{mutex_};
    pinned_.insert(std::move(entry));
    return pointer(block);
  }

  const functions& cu_;
  device_id device_ = 0;
  context context_ = nullptr;
  granule_table physicals_;
  std::mutex mutex_;                 // guards the fields below
  std::map<address, void*> pinned_;  // device address -> host address
};

}  // namespace
}  // namespace cuda

result<std::shared_ptr<device_backend>> open_cuda(std::string_view argument) {
  const auto number = device_number(argument, "cuda: the device's number follows the colon");
  if (!number) return number.error();
  const int ordinal = *number;
  const auto loaded = cuda::load();
  if (!loaded) return loaded.error();
  const cuda::functions& cu = **loaded;
  int count = 0;
  if (const cuda::status s = cu.cuDeviceGetCount(&count); s != cuda::success) {
    return cuda::failure(s, "cuda: devices");
  }
  if (ordinal >= count) {
    return error{errc::no_such_device, "cuda: no device of this number", static_cast<std::uint64_t>(ordinal)};
  }
  auto opened = std::make_shared<cuda::cuda_device>(cu);
  if (auto started = opened->start(ordinal); !started) return started.error();
  opened->probe_virtual_memory();
  return std::shared_ptr<device_backend>{std::move(opened)};
}

}  // namespace berth::detail
