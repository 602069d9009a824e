#include "berth/device/device.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "berth/core/contract.hpp"
#include "berth/core/hook.hpp"
#include "device/backend.hpp"

namespace berth {
namespace {

using detail::address_book;
using detail::device_backend;
using detail::without_bad_alloc;

struct backend_entry {
  std::string_view name;
  detail::open_function* open;
  bool numbered;  // "name:N" from 0 up
  bool by_name;   // one device per name in a process
};

#ifndef BERTH_WITH_OPENCL
result<std::shared_ptr<device_backend>> opencl_not_built(std::string_view) {
  return error{errc::unsupported, "opencl: not built (BERTH_OPENCL)"};
}
#endif
#ifndef BERTH_WITH_CUDA
result<std::shared_ptr<device_backend>> cuda_not_built(std::string_view) {
  return error{errc::unsupported, "cuda: not built (BERTH_CUDA)"};
}
#endif
#ifndef BERTH_WITH_ASCEND
result<std::shared_ptr<device_backend>> ascend_not_built(std::string_view) {
  return error{errc::unsupported, "ascend: not built (BERTH_ASCEND)"};
}
#endif

constexpr std::array backends{
    backend_entry{"host", detail::open_host, false, true},    backend_entry{"null", detail::open_null, false, false},
#ifdef BERTH_WITH_OPENCL
    backend_entry{"opencl", detail::open_opencl, true, true},
#else
    backend_entry{"opencl", opencl_not_built, true, true},
#endif
#ifdef BERTH_WITH_CUDA
    backend_entry{"cuda", detail::open_cuda, true, true},
#else
    backend_entry{"cuda", cuda_not_built, true, true},
#endif
#ifdef BERTH_WITH_ASCEND
    backend_entry{"ascend", detail::open_ascend, true, true},
#else
    backend_entry{"ascend", ascend_not_built, true, true},
#endif
};

// The devices that are open by name. Entries of closed devices are reused.
class open_devices {
 public:
  open_devices() {
    the_one_ = this;
    pthread_atfork([] { the_one_->mutex_.lock(); }, [] { the_one_->mutex_.unlock(); },
                   [] { the_one_->go_on_in_child(); });
  }

  result<std::shared_ptr<device_backend>> open(std::string_view name, const backend_entry& entry,
                                               std::string_view argument) {
    const std::lock_guard lock{opening_};
    const inside here;
    if (auto backend = find(name)) return backend;
    auto backend = entry.open(argument);
    if (backend) note(name, *backend);
    return backend;
  }

 private:
  std::shared_ptr<device_backend> find(std::string_view name) {
    const std::lock_guard lock{mutex_};
    const auto it = std::ranges::find(open_, name, &named::name);
    return it != open_.end() ? it->backend.lock() : nullptr;
  }
  void note(std::string_view name, const std::shared_ptr<device_backend>& backend) {
    const std::lock_guard lock{mutex_};
    auto it = std::ranges::find(open_, name, &named::name);
    if (it == open_.end()) it = open_.insert(it, named{std::string{name}, {}});
    it->backend = backend;
  }

  // Another thread's open() never completes in the child. One of this thread, whose driver forks, does.
  void go_on_in_child() noexcept {
    if (!opens_here_) new (&opening_) std::mutex;
    mutex_.unlock();
  }

  struct inside {
    inside() noexcept { opens_here_ = true; }
    ~inside() { opens_here_ = false; }
  };
  struct named {
    std::string name;
    std::weak_ptr<device_backend> backend;
  };
  static inline open_devices* the_one_ = nullptr;  // for the handlers of fork, which take no argument
  static inline constinit thread_local bool opens_here_ = false;
  std::mutex opening_;  // one device after the other; not held across a fork, as a driver may take long, and may fork
  std::mutex mutex_;    // guards the fields below
  std::vector<named> open_;
};

// Returns the address that the event hook gets for physical memory: no device address has its top bit set.
const void* physical_name(std::uint64_t handle) noexcept {
  constexpr std::uintptr_t top_bit = ~(std::numeric_limits<std::uintptr_t>::max() >> 1);
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(handle) | top_bit);
}

void note_given(device_backend& backend, const void* address, bytes size) noexcept {
  backend.counters.held.fetch_add(size, std::memory_order_relaxed);
  emit({.kind = memory_event_kind::device_allocate, .owner = &backend, .address = address, .size = size});
}

void note_taken_back(device_backend& backend, const void* address, bytes size) noexcept {
  backend.counters.held.fetch_sub(size, std::memory_order_relaxed);
  emit({.kind = memory_event_kind::device_free, .owner = &backend, .address = address, .size = size});
}

void note_zero_copy(device_backend& backend, bytes size) noexcept {
  if (!backend.properties().host_accessible)
    backend.counters.zero_copy_bytes.fetch_add(size, std::memory_order_relaxed);
}

// Ends the mapping that starts there in the book. Frees the memory if it was destroyed meanwhile and this was its last
// mapping. Returns the mapping's size.
bytes end_mapping(device_backend& backend, void* address) noexcept {
  const auto ended = backend.book.end_map(address);
  if (ended.last_of_destroyed) {
    note_taken_back(backend, physical_name(ended.handle), ended.physical_size);
    if (backend.works_here()) backend.destroy_physical(ended.handle, ended.physical_size);
  }
  return ended.size;
}

bool granular(const device_backend& backend, bytes n) noexcept {
  return is_aligned(n, backend.properties().granule);
}

bool granular(const device_backend& backend, const void* address) noexcept {
  return granular(backend, reinterpret_cast<std::uintptr_t>(address));
}

// Returns the error of an invalid size.
result<void> check_size(bytes size) noexcept {
  if (size == 0) return error{errc::invalid_input, "a block of no bytes"};
  if (!fits_size_t(size)) return error{errc::overflow, "a size beyond the address space", size};
  return {};
}

result<void> check_physical(const device_backend& backend, bytes size, source_location where) noexcept {
  if (!backend.properties().virtual_memory) return error{errc::unsupported, "this device has no virtual memory"};
  expects(granular(backend, size), "virtual memory: the size is no multiple of the granule", where);
  return check_size(size);
}

// Returns true if no device of this kind can be opened, instead of this one alone. Then even a number beyond all
// devices fails with another error than no_such_device.
bool fails_for_all(const backend_entry& entry) {
  return entry.open(std::to_string(std::numeric_limits<int>::max())).error().code != errc::no_such_device;
}

}  // namespace

result<device> device::open(std::string_view name) {
  static auto* const open_by_name = new open_devices;  // never destroyed
  const std::size_t colon = name.find(':');
  const std::string_view family = name.substr(0, colon);
  const std::string_view argument = colon == std::string_view::npos ? "" : name.substr(colon + 1);
  for (const backend_entry& entry : backends) {
    if (entry.name != family) continue;
    auto backend = entry.by_name ? open_by_name->open(name, entry, argument) : entry.open(argument);
    if (!backend) return backend.error();
    return device{std::move(*backend)};
  }
  return error{errc::invalid_input, "no such kind of device; there are host, null, opencl:N, cuda:N and ascend:N"};
}

result<device> device::make(const berth_backend& backend) {
  auto made = detail::make_own(backend);
  if (!made) return made.error();
  return device{std::move(*made)};
}

device device::host() {
  return device{*detail::open_host("")};
}

const device_properties& device::properties() const noexcept {
  return backend_->properties();
}

device_statistics device::statistics() const noexcept {
  const auto& c = backend_->counters;
  return {.held = c.held.load(std::memory_order_relaxed),
          .unlocked = backend_->unlocked(),
          .direct_copies = c.direct_copies.load(std::memory_order_relaxed),
          .staged_copies = c.staged_copies.load(std::memory_order_relaxed),
          .direct_bytes = c.direct_bytes.load(std::memory_order_relaxed),
          .staged_bytes = c.staged_bytes.load(std::memory_order_relaxed),
          .registered = c.registered.load(std::memory_order_relaxed),
          .zero_copy_bytes = c.zero_copy_bytes.load(std::memory_order_relaxed),
          .exchanged_bytes = c.exchanged_bytes.load(std::memory_order_relaxed)};
}

result<void*> device::allocate(bytes size, memory_kind kind) const {
  if (auto ok = check_size(size); !ok) return ok.error();
  if (!backend_->works_here()) return detail::device_before_fork;
  return without_bad_alloc([&]() -> result<void*> {
    auto entry = address_book::make_range({.size = size, .kind = kind});
    auto block = backend_->allocate(size, kind);
    if (!block) return block;
    backend_->book.add(std::move(entry), *block);
    note_given(*backend_, *block, size);
    if (kind == memory_kind::pinned) note_zero_copy(*backend_, size);
    return block;
  });
}

void device::free(void* block, bytes size, memory_kind kind, source_location where) const noexcept {
  expects(backend_->book.remove(block, {.size = size, .kind = kind}),
          "device: free of a block that this device has not given with this size and kind", where);
  // Reported before the device may give the same address again.
  note_taken_back(*backend_, block, size);
  if (backend_->works_here()) backend_->free(block, size, kind);
}

void* device::host_address(void* device_address) const noexcept {
  const auto kind = backend_->book.kind_of(device_address);
  return kind ? backend_->host_address(device_address, *kind) : nullptr;
}

result<void*> device::register_memory(void* memory, bytes size) const {
  if (memory == nullptr) return error{errc::invalid_input, "device: memory to register is null"};
  if (auto ok = check_size(size); !ok) return ok.error();
  if (!backend_->works_here()) return detail::device_before_fork;
  return without_bad_alloc([&]() -> result<void*> {
    auto entry = address_book::make_range({.size = size, .kind = memory_kind::pinned, .registered = true});
    if (!backend_->book.begin_registration(memory, size)) {
      return error{errc::invalid_input, "device: this memory is registered already, or is the device's", size};
    }
    auto address = backend_->register_memory(memory, size);
    if (!address) {
      backend_->book.end_registration(memory);
      return address;
    }
    backend_->book.add(std::move(entry), *address);
    backend_->counters.registered.fetch_add(size, std::memory_order_relaxed);
    note_zero_copy(*backend_, size);
    return address;
  });
}

result<void> device::unregister_memory(void* device_address, bytes size) const {
  const void* const memory = kind_of(device_address) ? host_address(device_address) : nullptr;
  if (!backend_->book.remove(device_address, {.size = size, .kind = memory_kind::pinned, .registered = true})) {
    return error{errc::invalid_input, "device: no memory of that size is registered at this address", size};
  }
  backend_->counters.registered.fetch_sub(size, std::memory_order_relaxed);
  if (backend_->works_here()) backend_->unregister_memory(device_address, size);
  backend_->book.end_registration(memory);
  return {};
}

std::optional<memory_kind> device::kind_of(const void* address) const noexcept {
  return backend_->book.kind_of(address);
}

void* device::native() const noexcept {
  return backend_->native();
}

result<void*> device::reserve(bytes size) const {
  if (auto ok = check_physical(*backend_, size, source_location::current()); !ok) return ok.error();
  if (!backend_->works_here()) return detail::device_before_fork;
  return without_bad_alloc([&]() -> result<void*> {
    auto entry = address_book::make_range({.size = size, .reservation = true});
    auto address = backend_->reserve(size);
    if (address) backend_->book.add(std::move(entry), *address);
    return address;
  });
}

void device::release(void* address, bytes size, source_location where) const noexcept {
  expects(!backend_->book.has_mappings(address, size), "device: release of a reservation with mappings", where);
  expects(backend_->book.remove(address, {.size = size, .reservation = true}),
          "device: release of what is no whole reservation", where);
  if (backend_->works_here()) backend_->release(address, size);
}

result<std::uint64_t> device::create_physical(bytes size, physical_form form) const {
  if (auto ok = check_physical(*backend_, size, source_location::current()); !ok) return ok.error();
  if (!backend_->works_here()) return detail::device_before_fork;
  return without_bad_alloc([&]() -> result<std::uint64_t> {
    auto entry = address_book::make_physical(size, form);
    auto handle = backend_->create_physical(size, form);
    if (!handle) return handle;
    backend_->book.add(std::move(entry), *handle);
    note_given(*backend_, physical_name(*handle), size);
    return handle;
  });
}

void device::destroy_physical(std::uint64_t handle, bytes size, source_location where) const noexcept {
  const auto found = backend_->book.destroy(handle, size);
  expects(found != address_book::destroyed::no_such_handle,
          "device: destroy_physical of a handle that this device has not given with this size", where);
  if (found != address_book::destroyed::now) return;
  note_taken_back(*backend_, physical_name(handle), size);
  if (backend_->works_here()) backend_->destroy_physical(handle, size);
}

result<std::uint64_t> device::split(std::uint64_t handle, bytes size, bytes at, source_location where) const {
  if (auto ok = check_physical(*backend_, size, where); !ok) return ok.error();
  expects(granular(*backend_, at) && at != 0 && at < size, "split: not at a granule inside the memory", where);
  if (!backend_->works_here()) return detail::device_before_fork;
  return without_bad_alloc([&]() -> result<std::uint64_t> {
    auto entries = backend_->book.begin_split(handle, size, at);
    if (!entries) return error{errc::unsupported, "split: the memory was made to be mapped as a whole", size};
    auto rest = backend_->split_physical(handle, size, at);
    if (rest) backend_->book.split(handle, at, *rest, std::move(*entries));
    return rest;
  });
}

result<void> device::map(void* address, bytes size, std::uint64_t handle, bytes offset, source_location where) const {
  if (auto ok = check_physical(*backend_, size, where); !ok) return ok;
  expects(granular(*backend_, address) && granular(*backend_, offset),
          "map: the address or the offset is no multiple of the granule", where);
  if (backend_->book.mapping_count() >= backend_->properties().max_mappings) {
    return error{errc::out_of_memory, "map: the system's limit of mappings is reached", size};
  }
  const auto noted = without_bad_alloc(
      [&]() -> result<const char*> { return backend_->book.begin_map(address, size, handle, offset); });
  if (!noted) return noted.error();
  expects(*noted == nullptr, *noted, where);
  auto done = without_bad_alloc([&]() -> result<void> {
    if (!backend_->works_here()) return detail::device_before_fork;
    return backend_->map(address, size, handle, offset);
  });
  if (!done) end_mapping(*backend_, address);
  return done;
}

result<void> device::unmap(void* address, bytes size, source_location where) const {
  if (auto ok = check_physical(*backend_, size, where); !ok) return ok;
  expects(backend_->book.whole_mappings(address, size), "unmap: the range is not made of whole mappings", where);
  // In the child of a fork it works like free() and release(): in the book alone.
  if (backend_->works_here()) {
    if (auto done = without_bad_alloc([&] { return backend_->unmap(address, size); }); !done) return done;
  }
  auto* start = static_cast<std::byte*>(address);
  for (bytes left = size; left != 0;) {
    const bytes ended = end_mapping(*backend_, start);
    start += ended;
    left -= ended;
  }
  return {};
}

std::vector<device_listing> list_devices() {
  std::vector<device_listing> all;
  for (const backend_entry& entry : backends) {
    for (int ordinal = 0;; ++ordinal) {
      std::string name{entry.name};
      if (entry.numbered) name.append(":").append(std::to_string(ordinal));
      const auto found = device::open(name);
      // The number after the last one is no device; if the first one is missing, a line gives the reason.
      const bool none = !found && found.error().code == errc::no_such_device;
      if (none && ordinal > 0) break;
      device_listing& one = all.emplace_back();
      one.name = std::move(name);
      one.available = found.has_value();
      if (!found) {
        one.reason = found.error().what;
        if (found.error().number != 0) one.reason.append(" (").append(std::to_string(found.error().number)).append(")");
        if (none || !entry.numbered || fails_for_all(entry)) break;
        continue;
      }
      one.properties = found->properties();
      if (!entry.numbered) break;
    }
  }
  return all;
}

}  // namespace berth
