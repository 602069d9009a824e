// The allocations of a device: blocks, reservations, physical memory and mappings. It detects the caller's mistakes (a
// free of an unknown block, a mapping over a mapping) on every backend alike, and finds the owner of an address.
// Thread-safe.
//
// Invariants:
//   I1  Blocks and reservations do not overlap.
//   I2  Every mapping lies inside one reservation; mappings do not overlap.
//   I3  The list physical.shown names the mappings of that handle.
//       A handle is forgotten when it is destroyed and unmapped.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/device/device.hpp"

namespace berth::detail {

class address_book {
 public:
  struct range {
    bytes size = 0;
    memory_kind kind = memory_kind::device;
    bool reservation = false;
    bool registered = false;  // memory of the host that was there before
  };
  struct physical {
    bytes size = 0;
    physical_form form = physical_form::granular;
    bool destroyed = false;
    std::vector<std::uintptr_t> shown{};  // the starts of its mappings
  };
  struct mapping {
    bytes size = 0;
    std::uint64_t handle = 0;
    bytes offset = 0;
  };
  using range_entry = std::map<std::uintptr_t, range>::node_type;
  using physical_entry = std::map<std::uint64_t, physical>::node_type;
  using mapping_entry = std::map<std::uintptr_t, mapping>::node_type;

  // Makes an entry ahead, so that recording an allocation of the device cannot fail.
  [[nodiscard]] static range_entry make_range(range r);
  [[nodiscard]] static physical_entry make_physical(bytes size, physical_form form);

  void add(range_entry entry, void* address) noexcept;
  // Returns false if there is no such range.
  [[nodiscard]] bool remove(void* address, const range& r) noexcept;
  // Notes host memory that is about to be registered. Returns false if it overlaps memory that is noted already, or
  // memory of the device at the same addresses.
  [[nodiscard]] bool begin_registration(const void* host, bytes size);
  void end_registration(const void* host) noexcept;
  // The block or reservation that contains the address, and its start.
  struct located {
    std::uintptr_t start = 0;
    range what;
  };
  [[nodiscard]] std::optional<located> find(const void* address) const noexcept;
  // Returns true if memory of the device has some of these addresses.
  [[nodiscard]] bool overlaps(const void* start, bytes size) const noexcept;
  // Returns the kind of this device's memory at the address.
  [[nodiscard]] std::optional<memory_kind> kind_of(const void* address) const noexcept;

  void add(physical_entry entry, std::uint64_t handle) noexcept;
  [[nodiscard]] bool has_physical(std::uint64_t handle) const noexcept;
  enum class destroyed { no_such_handle, now, later };
  [[nodiscard]] destroyed destroy(std::uint64_t handle, bytes size) noexcept;

  // The entries of a split, made ahead: for the new handle, and for the rests of mappings that lie on both sides.
  struct split_entries {
    physical_entry memory;
    std::vector<mapping_entry> rests;
  };
  // Returns nothing if the handle's memory has another size, or may not be mapped in parts. Until split(), no other
  // call may use the handle.
  [[nodiscard]] std::optional<split_entries> begin_split(std::uint64_t handle, bytes size, bytes at) const;
  void split(std::uint64_t handle, bytes at, std::uint64_t rest, split_entries entries) noexcept;

  // Returns the reason why the call would be a mistake. Returns null after recording the mapping.
  [[nodiscard]] const char* begin_map(void* address, bytes size, std::uint64_t handle, bytes offset);
  [[nodiscard]] bool whole_mappings(void* address, bytes size) const noexcept;
  // Forgets the mapping that starts there, or that could not be made there. A destroyed handle can be freed after its
  // last mapping.
  struct ended_mapping {
    bytes size = 0;
    std::uint64_t handle = 0;
    bytes physical_size = 0;
    bool last_of_destroyed = false;
  };
  [[nodiscard]] ended_mapping end_map(void* address) noexcept;
  [[nodiscard]] std::size_t mapping_count() const noexcept;
  [[nodiscard]] bool has_mappings(void* address, bytes size) const noexcept;

  // Called around a fork, so that the book is consistent in the child. Calls f(address, mapping) for every mapping; the
  // caller holds the lock.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }
  template <class Function>
  void for_each_mapping(Function&& f) const {
    for (const auto& [address, one] : mappings_) f(reinterpret_cast<void*>(address), one);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, range> ranges_;
  std::map<std::uintptr_t, bytes> registered_;  // memory of the host, by its own address
  std::map<std::uint64_t, physical> physicals_;
  std::map<std::uintptr_t, mapping> mappings_;
};

}  // namespace berth::detail
