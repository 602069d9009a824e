#include "device/driver.hpp"

#include <charconv>
#include <utility>

namespace berth::detail {

result<int> device_number(std::string_view argument, const char* what) noexcept {
  int number = 0;
  const char* end = argument.data() + argument.size();
  const auto [rest, wrong] = std::from_chars(argument.data(), end, number);
  if (wrong != std::errc{} || rest != end || number < 0) return error{errc::invalid_input, what};
  return number;
}

granule_table::entry granule_table::make(std::size_t n) {
  std::map<std::uint64_t, std::vector<std::uint64_t>> one;
  one[0].reserve(n);
  return one.extract(one.begin());
}

std::uint64_t granule_table::add(entry granules) noexcept {
  const std::lock_guard lock{mutex_};
  granules.key() = ++last_handle_;
  granules_.insert(std::move(granules));
  return last_handle_;
}

const std::uint64_t* granule_table::find(std::uint64_t handle) const noexcept {
  const std::lock_guard lock{mutex_};
  return granules_.find(handle)->second.data();
}

std::vector<std::uint64_t> granule_table::take(std::uint64_t handle) noexcept {
  const std::lock_guard lock{mutex_};
  return std::move(granules_.extract(handle).mapped());
}

}  // namespace berth::detail
