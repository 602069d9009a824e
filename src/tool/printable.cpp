#include "tool/printable.hpp"

#include <cstdint>
#include <cstdio>

namespace berth::tool {
namespace {

// The character that starts at text[0], and its length; 0 if there is none (overlong forms and surrogates included).
struct decoded {
  std::uint32_t character = 0;
  std::size_t length = 0;
};

decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || length > text.size()) return {};
  std::uint32_t c = first & (0x7Fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xC0u) != 0x80) return {};
    c = c << 6 | (byte(k) & 0x3Fu);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return {};
  return {c, length};
}

bool is_obeyed(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || (c >= 0x200E && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const decoded at = decode(text);
    char escape[16] = {};
    if (at.length == 0 || (at.character < 0x100 && is_obeyed(at.character))) {
      const unsigned shown = at.length == 0 ? static_cast<unsigned char>(text.front()) : at.character;
      std::snprintf(escape, sizeof escape, "\\x%02x", shown);
    } else if (is_obeyed(at.character)) {
      std::snprintf(escape, sizeof escape, "\\u{%04x}", static_cast<unsigned>(at.character));
    }
    const std::size_t length = at.length == 0 ? 1 : at.length;
    out += escape[0] != 0 ? std::string_view{escape} : text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace berth::tool
