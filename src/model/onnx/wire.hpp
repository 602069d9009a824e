// The wire format of protobuf (https://protobuf.dev/programming-guides/encoding), field by field, without copies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::model::wire {

enum class form : std::uint8_t { number = 0, eight_bytes = 1, text = 2, four_bytes = 5 };

struct field {
  std::uint64_t number = 0;
  form is = form::number;
  std::uint64_t value = 0;   // of a number, or the bits of eight or four bytes
  std::string_view body{};   // of a text: a message, a string or a packed list
  std::string_view whole{};  // with the tag
};

// Takes a number off the front of `text`; nothing where it does not end within ten bytes and within the text.
[[nodiscard]] inline std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t n = 0;
  for (unsigned shift = 0; shift < 70 && !text.empty(); shift += 7) {
    const auto b = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    if (shift < 64) n |= std::uint64_t{b & 127u} << shift;
    if (b < 128) return n;
  }
  return std::nullopt;
}

// Takes `size` bytes off the front of `text`, the least significant first; nothing where there are fewer.
[[nodiscard]] inline std::optional<std::uint64_t> take_bytes(std::string_view& text, std::size_t size) {
  if (text.size() < size) return std::nullopt;
  std::uint64_t n = 0;
  for (std::size_t i = size; i-- > 0;) n = n << 8 | static_cast<unsigned char>(text[i]);
  text.remove_prefix(size);
  return n;
}

// Takes the first field off the front of `text`; nothing where it is a group or runs beyond the text.
[[nodiscard]] inline std::optional<field> take_field(std::string_view& text) {
  const std::string_view from = text;
  const auto tag = take_number(text);
  if (!tag || *tag >> 3 == 0) return std::nullopt;
  field f{*tag >> 3};
  std::optional<std::uint64_t> value;
  switch (*tag & 7) {
    case 0: value = take_number(text); break;
    case 1: value = take_bytes(text, 8); break;
    case 2:
      value = take_number(text);
      if (!value || *value > text.size()) return std::nullopt;
      f.body = text.substr(0, static_cast<std::size_t>(*value));
      text.remove_prefix(f.body.size());
      break;
    case 5: value = take_bytes(text, 4); break;
    default: return std::nullopt;
  }
  if (!value) return std::nullopt;
  f.is = static_cast<form>(*tag & 7);
  f.value = *value;
  f.whole = from.substr(0, from.size() - text.size());
  return f;
}

inline void append_number(std::string& text, std::uint64_t n) {
  for (; n >= 128; n >>= 7) text += static_cast<char>((n & 127) | 128);
  text += static_cast<char>(n);
}

inline void append_text(std::string& to, std::uint64_t number, std::string_view body) {
  append_number(to, number << 3 | 2);
  append_number(to, body.size());
  to += body;
}

}  // namespace berth::model::wire
