// A device: memory of one or more kinds, streams that run in order, and (on some) virtual memory.
//
// `device` is a handle with shared ownership. Copying it is cheap, and all copies mean the same device. The device
// closes with the last copy; streams, events and pools hold one. Every member is thread-safe.
//
// Backends:
// * "host": real memory; streams run on worker threads.
// * "null": addresses without memory. Replays run on it, and it is a skeleton to clone. "null:16GiB" sets its size.
// * "opencl:N", "cuda:N", "ascend:N": devices with a driver, which is loaded at run time. So one binary serves machines
//   with and without it.
// * "host:huge", "host:node=1", "host:huge,node=1": the host's memory in huge pages, on one NUMA node, or both. There
//   is no virtual memory.
// * device::make() makes a device of the caller's own functions.
//
// Errors name the reason. A missing device or NUMA node is no_such_device. A form that the system cannot provide is
// unsupported.
//
// After fork() the child has devices of its own:
// * "host" and "null" keep working. The child sees the parent's bytes as they are when it looks, until the child
//   writes. Its own writes, frees and mappings never reach the parent. Only one of the two processes should use memory
//   that neither has touched yet.
// * Devices with a driver do not work in the child. Every call fails with device_failed, and freeing does nothing.
// * Streams and events from before the fork belong to the parent alone (stream.hpp).
//
// The device records every block and mapping it provides. A caller's mistake, such as a wrong free or a mapping over a
// mapping, breaks a contract at that call. Every backend checks alike.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/core/result.hpp"
#include "berth/rules/placement.hpp"

struct berth_backend;  // berth/backend.h

namespace berth {

namespace detail {
class device_backend;  // src/device/backend.hpp
}

enum class memory_kind : std::uint8_t {
  device,  // the device's own memory
  pinned,  // page-locked host memory that the device reads and writes in place (zero-copy)
};

enum class physical_form : std::uint8_t {
  granular,  // any granules of it may be mapped
  whole,     // mapped as a whole only: one piece of the driver's, few calls at any size
};

struct device_properties {
  std::string name;               // the name that open() takes
  std::string description;        // the hardware, for people
  rules::placement rules;         // of memory_kind::device
  rules::placement pinned_rules;  // of memory_kind::pinned
  bytes total_memory = 0;         // 0: unknown
  bool host_accessible = false;   // the host may dereference device addresses
  bool simulated = false;         // no real hardware behind it
  bool has_memory = true;         // false: its addresses have no bytes, as those of the null device
  bool virtual_memory = false;    // reserve / map work
  bytes granule = 0;              // granule of physical memory, if virtual_memory
  std::size_t max_mappings = 0;   // mappings that may exist at once, if virtual_memory
  // True if one create_physical() returns one piece of the system's memory. Export to other processes and devices needs
  // that. A block of allocate() always is one piece.
  bool contiguous_physical = false;
  std::vector<std::string> notes{};  // deviations from the usual that open() found
};

// Counters since the device was opened; each is exact, together they are a snapshot.
struct device_statistics {
  bytes held = 0;      // blocks and physical memory not yet freed, in requested bytes
  bytes unlocked = 0;  // pinned memory that the system would not lock: it works, but may be paged out
  // A copy is direct if the device moves the bytes itself. Both ends must be memory that it reaches in place, and start
  // at multiples of its copy_alignment. Otherwise the driver stages the copy through a buffer of its own (a bounce).
  std::uint64_t direct_copies = 0;
  std::uint64_t staged_copies = 0;
  bytes direct_bytes = 0;
  bytes staged_bytes = 0;
  bytes registered = 0;  // of host memory that is registered now
  // Zero-copy memory (pinned blocks and registered memory) given out since then, and bytes that copies moved between
  // host memory and the device's own. Both 0 where the host reaches the device's memory: nothing has to be exchanged.
  bytes zero_copy_bytes = 0;
  bytes exchanged_bytes = 0;

  // Returns the share of zero-copy memory in what host and device exchange; 1 if nothing was exchanged. A zero-copy
  // block counts once, however often both use it, so this is a lower bound.
  [[nodiscard]] double zero_copy_use() const noexcept {
    const bytes all = zero_copy_bytes + exchanged_bytes;
    return all == 0 ? 1.0 : static_cast<double>(zero_copy_bytes) / static_cast<double>(all);
  }
  // The share of bytes copied without a bounce; 1 if no byte was copied.
  [[nodiscard]] double zero_copy_rate() const noexcept {
    const bytes all = direct_bytes + staged_bytes;
    return all == 0 ? 1.0 : static_cast<double>(direct_bytes) / static_cast<double>(all);
  }
};

class device {
 public:
  // Opens a device. Errors: no_such_device, unsupported (built without this backend), invalid_input (not a name),
  // device_failed. The same name gives the same device while it is open, except "null": each open makes a new one.
  [[nodiscard]] static result<device> open(std::string_view name);
  // Makes a device of the caller's own functions (berth/backend.h, which has the rules). Each call makes a new one.
  // Errors: invalid_input (the text names the member), unsupported (the struct is of a newer version), out_of_memory.
  [[nodiscard]] static result<device> make(const berth_backend& backend);
  // Returns the host device, which always exists and is the same on every call.
  [[nodiscard]] static device host();

  [[nodiscard]] const device_properties& properties() const noexcept;
  [[nodiscard]] device_statistics statistics() const noexcept;

  // Allocates a block whose start satisfies the kind's rules; the device's own rounding applies. Errors: out_of_memory,
  // invalid_input (size 0), overflow, unsupported, device_failed. Cost: a call to the driver (microseconds to
  // milliseconds).
  [[nodiscard]] result<void*> allocate(bytes size, memory_kind kind = memory_kind::device) const;
  // Frees a block. Contract: allocate() returned it with this size and kind, and no operation in flight uses it.
  void free(void* block, bytes size, memory_kind kind = memory_kind::device,
            source_location where = source_location::current()) const noexcept;
  // Returns the host's address of a device address. The address lies in a pinned block, or in any memory of a
  // host-accessible device. Returns null elsewhere, and on "null", which has no memory.
  [[nodiscard]] void* host_address(void* device_address) const noexcept;

  // Registers existing memory of the host, so that the device reads and writes it in place. Returns the device's
  // address of its first byte. The memory counts as pinned, and host_address() leads back to it. It must not be freed
  // before unregister_memory(). Cost: a call to the driver, which locks the pages. Errors, which change nothing:
  //
  // * invalid_input: null, no bytes, memory that is registered already or is the device's. On Ascend also a start that
  //   is no multiple of 4096.
  // * unsupported: "null", OpenCL, Ascend chips whose kernels do not reach host memory.
  // * device_failed.
  [[nodiscard]] result<void*> register_memory(void* memory, bytes size) const;
  // Ends the registration, by the device's address and the size. No operation in flight uses the memory. Error:
  // invalid_input if nothing is registered there.
  result<void> unregister_memory(void* device_address, bytes size) const;
  // Returns which memory of this device an address lies in, as far as the device gave it out or registered it.
  // O(log blocks).
  [[nodiscard]] std::optional<memory_kind> kind_of(const void* address) const noexcept;

  // Virtual memory, if properties().virtual_memory (else unsupported). Sizes, offsets and addresses are multiples of
  // the granule (contract).
  //
  // `reserve` returns an address range without memory.
  //
  // `create_physical` returns memory without an address, named by a handle. A driver that maps only whole pieces makes
  // one piece per granule. With physical_form::whole it makes a single piece.
  //
  // `map` maps the handle's memory [offset, offset + size) to part of a reservation that has no mappings (contract).
  // One piece of memory may be mapped at several addresses.
  //
  // `unmap` removes one or more whole mappings that fill [address, address + size) (contract). The bytes stay in the
  // physical memory.
  //
  // `release` frees a whole reservation without mappings (contract).
  //
  // `destroy_physical` frees the memory at once if the handle is not mapped, else with its last unmap.
  //
  // `split` makes two handles of one. The given handle keeps the first `at` bytes, the new one has the rest. Mappings
  // stay, so a part of one piece can be freed. Returns unsupported if the memory must be mapped as a whole.
  //
  // Neither map nor unmap waits for streams: no operation in flight may use the range.
  //
  // Errors: out_of_memory (map: also if max_mappings would be exceeded), device_failed. On the host, physical memory is
  // committed at the first touch, as malloc's is. The event hook receives create_physical and destroy_physical as
  // device_allocate and device_free. The address is the handle with its top bit set.
  [[nodiscard]] result<void*> reserve(bytes size) const;
  void release(void* address, bytes size, source_location where = source_location::current()) const noexcept;
  [[nodiscard]] result<std::uint64_t> create_physical(bytes size, physical_form form = physical_form::granular) const;
  void destroy_physical(std::uint64_t handle, bytes size,
                        source_location where = source_location::current()) const noexcept;
  [[nodiscard]] result<std::uint64_t> split(std::uint64_t handle, bytes size, bytes at,
                                            source_location where = source_location::current()) const;
  [[nodiscard]] result<void> map(void* address, bytes size, std::uint64_t handle, bytes offset,
                                 source_location where = source_location::current()) const;
  [[nodiscard]] result<void> unmap(void* address, bytes size, source_location where = source_location::current()) const;

  // Returns the driver's context: CUcontext, aclrtContext, cl_context. A program needs it for its own driver calls.
  // With CUDA and Ascend it must be current, with OpenCL a queue must belong to it. Null on other devices. The device
  // owns it.
  [[nodiscard]] void* native() const noexcept;

  friend bool operator==(const device&, const device&) = default;

  // For streams, events and backends of Berth.
  [[nodiscard]] detail::device_backend& backend() const noexcept { return *backend_; }
  explicit device(std::shared_ptr<detail::device_backend> backend) noexcept : backend_{std::move(backend)} {}

 private:
  std::shared_ptr<detail::device_backend> backend_;
};

// A device that can be opened here, or the reason why it cannot. `berth devices` prints these.
struct device_listing {
  std::string name;
  bool available = false;
  std::string reason;              // why it is not available
  device_properties properties{};  // if available
};
[[nodiscard]] std::vector<device_listing> list_devices();

}  // namespace berth
#pragma GCC visibility pop
