#include "tool/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdarg>
#include <cstdio>

#include "tool/command_line.hpp"

namespace berth::tool {

std::string formatted(const char* form, ...) {
  std::va_list values, again;
  va_start(values, form);
  va_copy(again, values);
  const int length = std::vsnprintf(nullptr, 0, form, again);
  va_end(again);
  std::string text(static_cast<std::size_t>(std::max(length, 0)), ' ');
  std::vsnprintf(text.data(), text.size() + 1, form, values);
  va_end(values);
  return text;
}

std::string human(bytes n) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(n);
  for (; value >= 1024 && unit + 1 < units.size(); value /= 1024) ++unit;
  std::string number = formatted("%.3f", value);
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') number.pop_back();
  return number + ' ' + units[unit];
}

std::string human_exactly(bytes n) {
  const std::string text = human(n);
  return n < 1024 ? text : text + " (" + std::to_string(n) + " B)";
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
