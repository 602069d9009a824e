// Text in files: numbers, fields of a line, and the part that may stand in a message.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trace/text.hpp"

namespace berth::model {

using trace::cut, trace::cut_header, trace::trim;

// Returns all of `text` as a decimal number; nothing if it is none or does not fit.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number n{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (code != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return n;
}

// Tells whether an id needs an apostrophe in CSV, so that no spreadsheet takes it for a formula. An id that begins with
// = + - or @ does, but a whole number does not. An id with apostrophes before such a character gets another, so that
// unguarded() undoes it.
[[nodiscard]] inline bool needs_guard(std::string_view id) {
  const std::size_t first = id.find_first_not_of('\'');
  if (first == std::string_view::npos || std::string_view{"=+-@"}.find(id[first]) == std::string_view::npos)
    return false;
  return first != 0 || !parse_number<std::int64_t>(id);
}
[[nodiscard]] inline std::string guarded(std::string_view id) {
  return (needs_guard(id) ? "'" : "") + std::string{id};
}
[[nodiscard]] inline std::string_view unguarded(std::string_view field) {
  return field.starts_with('\'') && needs_guard(field.substr(1)) ? field.substr(1) : field;
}

// Returns at most 40 characters of a file's text, for a message on one line; all but printable ASCII becomes '?'.
[[nodiscard]] inline std::string quote(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 40)) out += c < 0x20 || c > 0x7e ? '?' : c;
  return out + (text.size() > 40 ? "...'" : "'");
}

// Returns the text without control characters, which hostile names contain.
[[nodiscard]] inline std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace berth::model
