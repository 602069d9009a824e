// Pickles for tests, written opcode by opcode (protocol 4).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::trace_test {

inline std::string number(std::uint64_t n) {  // LONG1, nine bytes: what has the top bit set stays positive
  std::string out = "\x8a\x09";
  for (int i = 0; i < 9; ++i) out += static_cast<char>(i == 8 ? 0 : n >> (8 * i) & 0xff);
  return out;
}

inline std::string text(std::string_view s) {  // BINUNICODE
  std::string out = "X";
  for (int i = 0; i < 4; ++i) out += static_cast<char>(s.size() >> (8 * i) & 0xff);
  return out += s;
}

inline std::string list(const std::vector<std::string>& items) {
  std::string out = "](";
  for (const std::string& i : items) out += i;
  return out + "e";
}

inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [key, v] : items) out += text(key) + v;
  return out + "u";
}

inline std::string pickled(const std::string& root) {
  return "\x80\x04" + root + ".";
}

}  // namespace berth::trace_test
