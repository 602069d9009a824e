// A device: memory of one or more kinds, streams that run in order, and (on some) virtual memory.
//
// `device` is a handle with shared ownership: copying it is cheap, all copies mean the same device, and the device
// closes with the last copy (streams, events and pools hold one). Every member is thread-safe.
//
// Backends: "host" (real memory, streams run on worker threads), "null" (addresses without memory: a skeleton to
// clone, and the device that replays run on; "null:16GiB" sets its size), "opencl:N", "cuda:N", "ascend:N".
// "host:huge", "host:node=1", "host:huge,node=1": the host's memory in huge pages, or on one NUMA node, or both;
// no virtual memory. What the system cannot do is an error of open(): unsupported, or no_such_device for a node.
// Those that need a driver load it at run time, so that one binary serves machines with and without it; opening one
// that is not there is an error that says why.
//
// After fork() the child has devices of its own. "host" and "null" go on there: memory from before shows the parent's
// bytes as they are when the child looks, until the child writes; what it writes, frees and maps is its own, and never
// reaches the parent. What neither has touched is best left to one of them. Devices with a driver do not work in the
// child: every call fails with device_failed, and giving back does nothing. Streams and events from before belong to
// the parent alone (stream.hpp).
//
// The device keeps a book of what it gave out. A wrong free, a mapping over a mapping and the like are the caller's
// mistakes and break a contract where they happen, on every backend alike.
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
#include "berth/core/result.hpp"
#include "berth/core/source_location.hpp"
#include "berth/rules/placement.hpp"

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
  whole,     // mapped as a whole only: one piece of the driver's, a few calls whatever its size
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
  // Whether what one create_physical() gives is one piece of the system's memory, as an export to other processes and
  // devices wants it. A block of allocate() always is.
  bool contiguous_physical = false;
  std::vector<std::string> notes{};  // what was found when it was opened and is not as one would expect
};

// Counters since the device was opened; each is exact, together they are a snapshot.
struct device_statistics {
  bytes held = 0;      // blocks and physical memory given out and not given back, as asked for
  bytes unlocked = 0;  // of the pinned memory held: what the system would not lock. It works, but may be paged out.
  // A copy is direct where the device moves the bytes itself: both ends are memory that it reaches in place and start
  // at multiples of its copy_alignment. Otherwise the driver stages it through a buffer of its own (a bounce).
  std::uint64_t direct_copies = 0;
  std::uint64_t staged_copies = 0;
  bytes direct_bytes = 0;
  bytes staged_bytes = 0;
  bytes registered = 0;  // of host memory that is registered now
  // Zero-copy memory (pinned blocks and registered memory) given out since then, and bytes that copies moved between
  // host memory and the device's own. Both 0 where the host reaches the device's memory: nothing has to be exchanged.
  bytes zero_copy_bytes = 0;
  bytes exchanged_bytes = 0;

  // The share of zero-copy memory in what host and device exchange. A zero-copy block counts once, however often both
  // use it, so this is a lower bound. 1 where nothing was exchanged.
  [[nodiscard]] double zero_copy_use() const noexcept {
    const bytes all = zero_copy_bytes + exchanged_bytes;
    return all == 0 ? 1.0 : static_cast<double>(zero_copy_bytes) / static_cast<double>(all);
  }
  // The share of bytes that were copied without a bounce; 1 where nothing was copied.
  [[nodiscard]] double zero_copy_rate() const noexcept {
    const bytes all = direct_bytes + staged_bytes;
    return all == 0 ? 1.0 : static_cast<double>(direct_bytes) / static_cast<double>(all);
  }
};

class device {
 public:
  // Errors: no_such_device, unsupported (built without this backend), invalid_input (not a name), device_failed.
  // The same name gives the same device while it is open, except "null": each open makes a new one.
  [[nodiscard]] static result<device> open(std::string_view name);
  // The host device. Always there; the same one on every call.
  [[nodiscard]] static device host();

  [[nodiscard]] const device_properties& properties() const noexcept;
  [[nodiscard]] device_statistics statistics() const noexcept;

  // A block whose start satisfies the kind's rules; the device's own rounding applies. Errors: out_of_memory,
  // invalid_input (size 0), overflow, unsupported, device_failed. Cost: a call to the driver (microseconds to
  // milliseconds).
  [[nodiscard]] result<void*> allocate(bytes size, memory_kind kind = memory_kind::device) const;
  // Contract: a block that allocate() gave with this size and kind, and no operation in flight uses it.
  void free(void* block, bytes size, memory_kind kind = memory_kind::device,
            source_location where = source_location::current()) const noexcept;
  // The host's address of an address inside a pinned block, or inside any memory of a host-accessible device; null
  // elsewhere, and on "null", which has no memory.
  [[nodiscard]] void* host_address(void* device_address) const noexcept;

  // Registers memory of the host that exists already, so that the device reads and writes it in place, and returns the
  // device's address of its first byte. The memory counts as pinned; host_address() leads back to it. It stays where it
  // is, and may not be freed, until unregister_memory(). Errors, which change nothing: invalid_input (null, no bytes,
  // memory that is registered already or is the device's, on Ascend a start that is no multiple of 4096), unsupported
  // ("null", OpenCL, Ascend chips whose kernels do not reach host memory), device_failed. Cost: a call to the driver,
  // which locks the pages.
  [[nodiscard]] result<void*> register_memory(void* memory, bytes size) const;
  // Ends that, by the device's address and the size. No operation in flight uses the memory. Error: invalid_input, for
  // what is not registered so.
  result<void> unregister_memory(void* device_address, bytes size) const;
  // Returns which memory of this device an address lies in, as far as the device gave it out or registered it.
  // O(log blocks).
  [[nodiscard]] std::optional<memory_kind> kind_of(const void* address) const noexcept;

  // Virtual memory, where properties().virtual_memory (else unsupported). Sizes, offsets and addresses are multiples
  // of the granule (contract).
  //
  // reserve: an address range without memory. create_physical: memory without an address, named by a handle.
  // Drivers that map nothing but whole pieces make one of every granule, unless they are told that the memory will be
  // mapped as a whole.
  // map: gives a part of a reservation, free of mappings (contract), the memory [offset, offset + size) of the handle;
  // one piece of memory may be mapped at several addresses. unmap: the reverse, for one or more whole mappings
  // that fill [address, address + size) (contract); the bytes stay in the physical memory.
  // release: a whole reservation, free of mappings (contract). destroy_physical: at once where the handle is not
  // mapped, with its last unmap otherwise.
  // split: makes two handles of one. The given one keeps the first `at` bytes, the new one has the rest. Mappings stay,
  // so that a part of what was made in one piece can go back. unsupported where the memory was made to be mapped as a
  // whole. Neither map nor unmap waits for streams: no operation in flight may use the range.
  //
  // Errors: out_of_memory (map: also where max_mappings would be passed), device_failed. On the host, physical memory
  // is committed when it is first touched, as malloc's is.
  // The event hook hears create_physical and destroy_physical as device_allocate and device_free; the address is the
  // handle with its top bit set.
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

  // The driver's context, which must be current (CUDA, Ascend), or of which a queue must be (OpenCL), where a program
  // talks to the driver itself: CUcontext, aclrtContext, cl_context. Null elsewhere. It is the device's.
  [[nodiscard]] void* native() const noexcept;

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
#pragma GCC visibility pop
