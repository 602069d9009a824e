// What the readers of logs as tables share.
#pragma once

#include <charconv>
#include <string_view>

namespace berth::trace {

// Cuts the text up to the next `end` off the front.
inline std::string_view cut(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view front = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return front;
}

// Whether the whole text is a number of this type; `form` as std::from_chars takes it: a base, or a chars_format.
template <class Number, class... Form>
bool read(std::string_view text, Number& out, Form... form) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out, form...);
  return failed == std::errc{} && end == text.data() + text.size();
}

}  // namespace berth::trace
