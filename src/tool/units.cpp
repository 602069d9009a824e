#include "tool/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "tool/command_line.hpp"

namespace berth::tool {
namespace {

// The bytes of a unit; nothing where there is none of that name.
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

std::string human_exactly(bytes n) {
  const std::string text = human(n);
  return n < 1024 ? text : text + " (" + std::to_string(n) + " B)";
}

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

std::optional<bytes> parse_bytes_or_share(std::string_view text, bytes whole) {
  if (!text.ends_with('%')) return parse_bytes(text);
  double percent = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [at, failed] = std::from_chars(text.data(), end, percent);
  if (failed != std::errc{} || at != end || !(percent >= 0 && percent <= 1e6)) return std::nullopt;
  return share_of(whole, percent / 100);
}

CLI::Option* add_bytes_option(CLI::App& app, const std::string& names, std::optional<bytes>& to,
                              const std::string& what) {
  const auto read = [&to, names](const std::string& text) {
    to = parse_bytes(text);
    if (!to) throw CLI::ValidationError{names + ": '" + text + "' is no number of bytes, such as 1048576 or 1MiB"};
  };
  return app.add_option_function<std::string>(names, read, what)->type_name("BYTES");
}

}  // namespace berth::tool
