// The common code of backends whose driver is loaded at run time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"

namespace berth::detail {

// Returns the number in "cuda:0". Errors: invalid_input with `what` if the argument is no number from 0 up.
[[nodiscard]] result<int> device_number(std::string_view argument, const char* what) noexcept;

// Physical memory for drivers that map only whole handles, at offset 0. Berth maps any granules of a handle. So its
// handle is a list of driver handles of one granule each, or a single one if the memory is mapped as a whole. The
// driver's handles are kept as numbers. Thread-safe.
class granule_table {
 public:
  struct pieces {
    bytes each = 0;
    std::vector<std::uint64_t> handles;
  };
  using entry = std::map<std::uint64_t, pieces>::node_type;
  // Makes an empty list with room for all, before the driver call, so that no step fails after it.
  [[nodiscard]] static entry make(bytes size, bytes granule, physical_form form);
  // Returns the new handle. Never 0, never given twice.
  [[nodiscard]] std::uint64_t add(entry made) noexcept;
  // Returns pieces that neither move nor change until take().
  [[nodiscard]] const pieces& find(std::uint64_t handle) const noexcept;
  // Moves the pieces from byte `at` on to a new handle, and returns it. May throw bad_alloc; then the table is
  // unchanged.
  [[nodiscard]] std::uint64_t split(std::uint64_t handle, bytes at);
  [[nodiscard]] std::vector<std::uint64_t> take(std::uint64_t handle) noexcept;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, pieces> all_;
  std::uint64_t last_handle_ = 0;
};

}  // namespace berth::detail
