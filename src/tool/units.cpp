#include "tool/units.hpp"

#include <array>
#include <cstdio>

namespace berth::tool {

std::string human(bytes n) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(n);
  for (; value >= 1024 && unit + 1 < units.size(); value /= 1024) ++unit;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value);
  std::string number = text.data();
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') number.pop_back();
  return number + ' ' + units[unit];
}

}  // namespace berth::tool
