// What the backends share whose driver is loaded at run time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "berth/core/result.hpp"

namespace berth::detail {

// The number in "cuda:0". Errors: invalid_input with `what` where the argument is no number from 0 up.
[[nodiscard]] result<int> device_number(std::string_view argument, const char* what) noexcept;

// Physical memory for drivers that map whole handles only, at offset 0: our interface maps any granules of a handle,
// so a handle of ours is a list of driver handles of one granule each. The driver's handles are kept as numbers.
// Thread-safe.
class granule_table {
 public:
  using entry = std::map<std::uint64_t, std::vector<std::uint64_t>>::node_type;
  // An empty list with room for n granules, made before the driver is asked, so that nothing can fail behind it.
  [[nodiscard]] static entry make(std::size_t n);
  // The new handle. Never 0, never given twice.
  [[nodiscard]] std::uint64_t add(entry granules) noexcept;
  // The first granule; the list neither moves nor changes until take().
  [[nodiscard]] const std::uint64_t* find(std::uint64_t handle) const noexcept;
  [[nodiscard]] std::vector<std::uint64_t> take(std::uint64_t handle) noexcept;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> granules_;
  std::uint64_t last_handle_ = 0;
};

}  // namespace berth::detail
