// Helpers shared by the readers of tables.
#pragma once

#include <charconv>
#include <cstddef>
#include <string_view>

namespace berth::trace {

// Cuts the part before the first `separator` (or all) off the front of `text`.
[[nodiscard]] inline std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view front = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return front;
}

// Returns the line without the blanks and the carriage return around it.
[[nodiscard]] inline std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// Cuts off the first line that is neither blank nor a comment; `line`, that of the first, becomes its number.
[[nodiscard]] inline std::string_view cut_header(std::string_view& text, std::size_t& line) {
  std::string_view row = trim(cut(text, '\n'));
  for (; (row.empty() || row.front() == '#') && !text.empty(); ++line) row = trim(cut(text, '\n'));
  return row;
}

// Reads the whole text as a number of this type; `form` as std::from_chars takes it: a base, or a chars_format.
template <class Number, class... Form>
bool read(std::string_view text, Number& out, Form... form) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out, form...);
  return failed == std::errc{} && end == text.data() + text.size();
}

}  // namespace berth::trace
