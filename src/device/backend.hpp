// What a backend implements. Private: never installed. src/device/null/README.md says how to add one.
//
// device.cpp and stream.cpp do what all backends share: they check contracts, keep the book of what was given out,
// count, emit events and keep the vector clocks. A backend only talks to its driver; it may rely on
//   - sizes > 0 that fit std::size_t, and multiples of the granule where virtual memory is meant;
//   - blocks, handles and ranges that it gave out itself, with the size it gave them for;
//   - events that it made itself (so that a static_cast to its own type is right);
//   - being asked only in the process that opened it, unless it survives_fork(); queues never outside theirs;
//   - one thread at a time per event that is recorded. Everything else may be called from several threads, a queue too.
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

// What f gives, or, where the system has no memory for somebody's own records, that as an error. f leaves everything as
// it was where it throws. Without exceptions there is no error: the program ends where it asked.
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

  // Several threads may call these at once. What has returned comes before what is called later; a synchronize() that
  // waits holds nobody up.
  virtual result<void> copy(void* to, const void* from, bytes size) = 0;
  virtual result<void> fill(void* to, std::byte value, bytes size) = 0;
  virtual result<void> call(void (*function)(void*), void* context) = 0;
  // The stream's clock closes `epoch` here. A backend that sees by itself when the work before is done may say so to
  // the clock; it need not.
  virtual result<void> record(backend_event& e, std::uint64_t epoch) = 0;
  virtual result<void> wait(backend_event& e) = 0;
  virtual result<void> synchronize() = 0;
  virtual result<bool> query() = 0;
  // Whether that error of a call says nothing of queued work, but that the queue can not be asked or ordered now.
  [[nodiscard]] virtual bool refuses(const error&) const noexcept { return false; }
  // stream::idle(): what is known without the driver, as it may be asked in a host function. False: it is not known.
  [[nodiscard]] virtual bool idle() const noexcept { return false; }
  // stream::native().
  [[nodiscard]] virtual void* native() const noexcept { return nullptr; }
  // stream::follow_native().
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
  // Tries virtual memory once through: two addresses for the same memory, bytes in by one and out by the other. What
  // does not work is not offered, and a note says why. For backends of drivers that may promise more than they do.
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
  // Whether a copy reaches an address that is not memory of this device without a bounce.
  virtual bool reaches_foreign_memory() const noexcept { return false; }
  // Whether it goes on in the child of a fork. Where not, the child's calls do not reach it, and its destructor there
  // leaves the driver alone.
  virtual bool survives_fork() const noexcept { return false; }
  [[nodiscard]] bool works_here() const noexcept { return born_ == process_generation() || survives_fork(); }
  // device_statistics::unlocked.
  virtual bytes unlocked() const noexcept { return 0; }

  virtual result<void*> reserve(bytes) { return no_virtual_memory; }
  virtual void release(void*, bytes) noexcept {}
  virtual result<std::uint64_t> create_physical(bytes, physical_form) { return no_virtual_memory; }
  // Only called for handles without mappings.
  virtual void destroy_physical(std::uint64_t, bytes) noexcept {}
  // The handle keeps the first `at` bytes; the rest has the handle that is returned. What is mapped stays so.
  virtual result<std::uint64_t> split_physical(std::uint64_t, bytes, bytes) {
    return error{errc::unsupported, "this device cannot split physical memory"};
  }
  virtual result<void> map(void*, bytes, std::uint64_t, bytes) { return no_virtual_memory; }
  // One or more whole mappings.
  virtual result<void> unmap(void*, bytes) { return no_virtual_memory; }
  // The memory of this mapping is used at another address for a while. The bytes stay. A backend whose memory is the
  // process's own takes it out of the pages that count as resident here.
  virtual void rest(void*, bytes, std::uint64_t) noexcept {}

  // The clock belongs to the stream that the queue serves.
  virtual result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock> clock) = 0;
  // A queue over a stream that somebody else made and will destroy, after the queue.
  virtual result<std::unique_ptr<backend_queue>> wrap_queue(void* native, std::shared_ptr<stream_clock> clock) = 0;
  virtual result<std::unique_ptr<backend_event>> create_event() = 0;
  // device::native().
  [[nodiscard]] virtual void* native() const noexcept { return nullptr; }

  // What device.cpp and stream.cpp keep for every backend.
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

// What follows the colon in a device's name: "0" of "cuda:0", "" where there is none.
using open_function = result<std::shared_ptr<device_backend>>(std::string_view argument);

open_function open_host;  // cannot fail where the argument is empty: that is the one that device::host() gives
open_function open_null;
open_function open_opencl;
open_function open_cuda;
open_function open_ascend;

}  // namespace berth::detail
