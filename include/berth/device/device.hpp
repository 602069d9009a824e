// A device: memory of one or more kinds, streams that run in order, and (on some) virtual memory.
//
// `device` is a handle with shared ownership: copying it is cheap, all copies mean the same device, and the device
// closes with the last copy (streams, events and pools hold one). Every member is thread-safe.
//
// Backends: "host" (real memory, streams run on worker threads), "null" (addresses without memory: a skeleton to
// clone, and the device that replays run on), "opencl:N", "cuda:N", "ascend:N". CUDA and Ascend are loaded at run
// time; opening one that is not there is an error that says why.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/rules/placement.hpp"

namespace berth {

namespace detail {
class device_backend;  // src/device/backend.hpp
}

enum class memory_kind : std::uint8_t {
  device,  // the device's own memory
  pinned,  // page-locked host memory that the device reads and writes in place (zero-copy)
};

struct device_properties {
  std::string name;               // as open() takes it
  std::string description;        // the hardware, for people
  rules::placement rules;         // of memory_kind::device
  rules::placement pinned_rules;  // of memory_kind::pinned
  bytes total_memory = 0;         // 0: unknown
  bool host_accessible = false;   // the host may dereference device addresses
  bool simulated = false;         // no real hardware behind it
  bool virtual_memory = false;    // reserve / map work
  bytes granule = 0;              // of physical memory, where virtual_memory
  std::size_t max_mappings = 0;   // mappings that may exist at once, where virtual_memory
};

class device {
 public:
  // Errors: no_such_device, unsupported (built without this backend), device_failed.
  [[nodiscard]] static result<device> open(std::string_view name);
  // The host device. Always there; the same one on every call.
  [[nodiscard]] static device host();

  [[nodiscard]] const device_properties& properties() const noexcept;

  // A block whose start satisfies the kind's rules; the device's own rounding applies. Errors: out_of_memory,
  // unsupported, device_failed. Cost: a call to the driver (microseconds to milliseconds).
  [[nodiscard]] result<void*> allocate(bytes size, memory_kind kind = memory_kind::device) const;
  // Contract: a block that allocate() gave with this size and kind, and no operation in flight uses it.
  void free(void* block, bytes size, memory_kind kind = memory_kind::device) const noexcept;
  // The host's address of a pinned block's device address, and back; null where the address is not pinned memory.
  [[nodiscard]] void* host_address(void* device_address) const noexcept;

  // Virtual memory, where properties().virtual_memory. Sizes and offsets are multiples of the granule.
  // reserve: an address range without memory. create_physical: memory without an address.
  [[nodiscard]] result<void*> reserve(bytes size) const;
  void release(void* address, bytes size) const noexcept;
  [[nodiscard]] result<std::uint64_t> create_physical(bytes size) const;  // a handle
  void destroy_physical(std::uint64_t handle, bytes size) const noexcept;
  [[nodiscard]] result<void> map(void* address, bytes size, std::uint64_t handle, bytes offset) const;
  [[nodiscard]] result<void> unmap(void* address, bytes size) const;

  friend bool operator==(const device&, const device&) = default;

  // For streams, events and backends of Berth.
  [[nodiscard]] detail::device_backend& backend() const noexcept { return *backend_; }
  explicit device(std::shared_ptr<detail::device_backend> backend) noexcept : backend_{std::move(backend)} {}

 private:
  std::shared_ptr<detail::device_backend> backend_;
};

// What `berth devices` lists: every device that can be opened here, and why the others cannot.
struct device_listing {
  std::string name;
  bool available = false;
  std::string reason;              // why not, where not
  device_properties properties{};  // where available
};
[[nodiscard]] std::vector<device_listing> list_devices();

}  // namespace berth
