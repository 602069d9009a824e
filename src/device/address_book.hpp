// What a device has given out: blocks, reservations, physical memory and mappings. It finds the caller's mistakes
// (a free of what is not there, a mapping over a mapping) on every backend alike, and knows whose memory an address
// is. Thread-safe.
//
// Invariants:
//   I1  Blocks and reservations do not overlap.
//   I2  Every mapping lies inside one reservation; mappings do not overlap.
//   I3  physical.mappings counts the mappings of that handle; a handle is forgotten when it is destroyed and unmapped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <utility>
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
  };
  struct physical {
    bytes size = 0;
    std::size_t mappings = 0;
    bool destroyed = false;
  };
  struct mapping {
    bytes size = 0;
    std::uint64_t handle = 0;
  };
  using range_entry = std::map<std::uintptr_t, range>::node_type;
  using physical_entry = std::map<std::uint64_t, physical>::node_type;

  // An entry made ahead, so that noting what the device has given cannot fail any more.
  [[nodiscard]] static range_entry make_range(range r);
  [[nodiscard]] static physical_entry make_physical(bytes size);

  void add(range_entry entry, void* address) noexcept;
  // False where there is no such range.
  [[nodiscard]] bool remove(void* address, const range& r) noexcept;
  // The kind of the memory of this device that the address lies in.
  [[nodiscard]] std::optional<memory_kind> kind_of(const void* address) const noexcept;

  void add(physical_entry entry, std::uint64_t handle) noexcept;
  enum class destroyed { no_such_handle, now, later };
  [[nodiscard]] destroyed destroy(std::uint64_t handle, bytes size) noexcept;

  // The reason why the call would be a mistake, or null and the mapping is noted.
  [[nodiscard]] const char* begin_map(void* address, bytes size, std::uint64_t handle, bytes offset);
  // Forgets one mapping that could not be made.
  void cancel_map(void* address) noexcept;
  [[nodiscard]] bool whole_mappings(void* address, bytes size) const noexcept;
  // Forgets the mappings in the range; gives the handles that may be destroyed now, with their sizes.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, bytes>> end_map(void* address, bytes size);
  [[nodiscard]] std::size_t mapping_count() const noexcept;
  [[nodiscard]] bool has_mappings(void* address, bytes size) const noexcept;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, range> ranges_;
  std::map<std::uint64_t, physical> physicals_;
  std::map<std::uintptr_t, mapping> mappings_;
};

}  // namespace berth::detail
