// The interface of a backend. Private: never installed. The steps to add one are in src/device/null/README.md.
//
// The files device.cpp and stream.cpp do the common work of all backends. They check contracts, record allocations,
// count, emit events and keep the vector clocks. A backend only talks to its driver. It may rely on these:
// * Sizes are above 0 and fit std::size_t. For virtual memory they are multiples of the granule.
// * Blocks, handles and ranges are its own, with the size it allocated them for.
// * Events are its own, so a static_cast to its own type is right.
// * Calls come only in the process that opened it, unless it survives_fork(). Calls of queues never come elsewhere.
// * One thread at a time uses an event that is recorded. All else may be called from several threads, a queue too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"
#include "device/address_book.hpp"
#include "device/order_records.hpp"
#include "device/process.hpp"

namespace berth::detail {

// Returns f's result, or an error if the system has no memory for records. If f throws, it leaves all state unchanged.
// Without exceptions there is no error: the program ends at the failed allocation.
template <class F>
auto without_bad_alloc(F&& f) noexcept -> decltype(f()) {
#if defined(__cpp_exceptions)
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory, "device: no host memory for its own records"};
  }
#else
  return f();
#endif
}

class backend_event {
 public:
  backend_event() = default;
  backend_event(const backend_event&) = delete;
  backend_event& operator=(const backend_event&) = delete;
  virtual ~backend_event() = default;

  // Only called after a record().
  virtual result<bool> query() = 0;
  virtual result<void> synchronize() = 0;
};

class backend_queue {
 public:
  backend_queue() = default;
  backend_queue(const backend_queue&) = delete;
  backend_queue& operator=(const backend_queue&) = delete;
  // Waits for the queued work.
  virtual ~backend_queue() = default;

  // Several threads may call these at once. A call that has returned comes before later calls. A waiting synchronize()
  // blocks no other call.
  virtual result<void> copy(void* to, const void* from, bytes size) = 0;
  virtual result<void> fill(void* to, std::byte value, bytes size) = 0;
  virtual result<void> call(void (*function)(void*), void* context) = 0;
  // Records e; the stream's clock closes `epoch` here. A backend that detects the end of the work before may update the
  // clock, but need not.
  virtual result<void> record(backend_event& e, std::uint64_t epoch) = 0;
  virtual result<void> wait(backend_event& e) = 0;
  virtual result<void> synchronize() = 0;
  virtual result<bool> query() = 0;
  // Returns true if that error concerns only the call: the queue cannot be queried or ordered now.
  [[nodiscard]] virtual bool refuses(const error&) const noexcept { return false; }
  // Implements stream::idle(), without the driver, as host functions may call it. False: unknown.
  [[nodiscard]] virtual bool idle() const noexcept { return false; }
  // Implements stream::native().
  [[nodiscard]] virtual void* native() const noexcept { return nullptr; }
  // Implements stream::follow_native().
  virtual result<void> follow_native() { return {}; }
};

class device_backend {
 public:
  device_backend() = default;
  device_backend(const device_backend&) = delete;
  device_backend& operator=(const device_backend&) = delete;
  virtual ~device_backend() = default;

  [[nodiscard]] const device_properties& properties() const noexcept { return properties_; }

  virtual result<void*> allocate(bytes size, memory_kind kind) = 0;
  virtual void free(void* block, bytes size, memory_kind kind) noexcept = 0;
  // Tests virtual memory once: two addresses for the same memory, written by one and read by the other. Features that
  // fail are not offered, and a note gives the reason. For backends of drivers that may promise more than they do.
  [[gnu::visibility("hidden")]] void probe_virtual_memory();
  // Memory of the host, which is neither empty nor registered. host_address() leads from the device's address back to
  // it.
  virtual result<void*> register_memory(void*, bytes) {
    return error{errc::unsupported, "this device registers no memory of the host"};
  }
  virtual void unregister_memory(void* /*device_address*/, bytes) noexcept {}
  // For addresses inside memory of this device.
  virtual void* host_address(void* address, memory_kind kind) noexcept {
    return properties_.host_accessible || kind == memory_kind::pinned ? address : nullptr;
  }
  // Returns true if a copy reaches an address outside this device's memory without a bounce.
  virtual bool reaches_foreign_memory() const noexcept { return false; }
  // Returns true if it works in the child of a fork. If not, the child's calls do not reach it, and its destructor
  // there leaves the driver alone.
  virtual bool survives_fork() const noexcept { return false; }
  [[nodiscard]] bool works_here() const noexcept { return born_ == process_generation() || survives_fork(); }
  // Implements device_statistics::unlocked.
  virtual bytes unlocked() const noexcept { return 0; }

  virtual result<void*> reserve(bytes) { return no_virtual_memory; }
  virtual void release(void*, bytes) noexcept {}
  virtual result<std::uint64_t> create_physical(bytes, physical_form) { return no_virtual_memory; }
  // Only called for handles without mappings.
  virtual void destroy_physical(std::uint64_t, bytes) noexcept {}
  // The given handle keeps the first `at` bytes; the returned one has the rest. Mappings stay.
  virtual result<std::uint64_t> split_physical(std::uint64_t, bytes, bytes) {
    return error{errc::unsupported, "this device cannot split physical memory"};
  }
  virtual result<void> map(void*, bytes, std::uint64_t, bytes) { return no_virtual_memory; }
  // Unmaps one or more whole mappings.
  virtual result<void> unmap(void*, bytes) { return no_virtual_memory; }
  // The memory of this mapping is used at another address for a while. The bytes stay. A backend on the process's own
  // memory removes these pages from the resident set here.
  virtual void rest(void*, bytes, std::uint64_t) noexcept {}

  // The clock belongs to the stream that the queue serves.
  virtual result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) = 0;
  // Makes a queue over a foreign stream, whose owner destroys it after the queue.
  virtual result<std::unique_ptr<backend_queue>> wrap_queue(void* native, std::shared_ptr<stream_clock> clock) = 0;
  virtual result<std::unique_ptr<backend_event>> create_event() = 0;
  // Implements device::native().
  [[nodiscard]] virtual void* native() const noexcept { return nullptr; }

  // State that device.cpp and stream.cpp keep for every backend.
  address_book book;
  order_records order;
  struct {
    std::atomic<std::uint64_t> held{0}, direct_copies{0}, staged_copies{0}, direct_bytes{0}, staged_bytes{0};
    std::atomic<std::uint64_t> registered{0}, zero_copy_bytes{0}, exchanged_bytes{0};
  } counters;

 protected:
  static constexpr error no_virtual_memory{errc::unsupported, "this device has no virtual memory"};
  device_properties properties_;

 private:
  [[nodiscard, gnu::visibility("hidden")]] result<void> try_virtual_memory();
  const std::uint32_t born_ = process_generation();
};

// The text after the colon in a device's name: "0" for "cuda:0", "" without one.
using open_function = result<std::shared_ptr<device_backend>>(std::string_view argument);

open_function open_host;  // cannot fail if the argument is empty: device::host() uses it
open_function open_null;
open_function open_opencl;
open_function open_cuda;
open_function open_ascend;

// Makes the backend of device::make().
result<std::shared_ptr<device_backend>> make_own(const berth_backend& given);

}  // namespace berth::detail
