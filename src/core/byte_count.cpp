#include "core/byte_count.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

namespace berth {
namespace {

// Returns the bytes of a unit, or nothing if no unit has that name.
std::optional<bytes> unit_named(std::string_view name) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::string low;
  for (const char c : name) low += small(c);
  if (low.empty() || low == "b") return 1;
  const std::size_t power = std::string_view{"kmgtpe"}.find(low.front());
  if (power == std::string_view::npos || (low.substr(1) != "ib" && low.substr(1) != "b")) return std::nullopt;
  bytes unit = 1;
  for (std::size_t k = 0; k <= power; ++k) unit *= low.size() == 3 ? 1024 : 1000;
  return unit;
}

}  // namespace

std::optional<bytes> parse_bytes(std::string_view text) {
  const auto cut = [&text](std::string_view of) {
    const std::string_view front = text.substr(0, std::min(text.find_first_not_of(of), text.size()));
    text.remove_prefix(front.size());
    return front;
  };
  const auto number = [](std::string_view digits) {
    bytes n = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    return failed == std::errc{} && end == digits.data() + digits.size() ? std::optional{n} : std::nullopt;
  };
  constexpr std::string_view digits = "0123456789";
  const auto whole = number(cut(digits));
  bytes part = 0, scale = 1;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::string_view behind = cut(digits);
    const auto n = behind.size() <= 9 ? number(behind) : std::nullopt;
    if (!n) return std::nullopt;
    part = *n;
    for (std::size_t k = 0; k < behind.size(); ++k) scale *= 10;
  }
  (void)cut(" ");
  const auto unit = unit_named(text);
  if (!whole || !unit) return std::nullopt;
  const auto sum = checked_mul(*whole, *unit);
  return sum ? checked_add(*sum, *unit / scale * part + *unit % scale * part / scale) : std::nullopt;
}

}  // namespace berth
