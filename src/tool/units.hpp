// Byte counts for people: as all tables of the command show them and all options take them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "berth/core/bytes.hpp"
#include "core/byte_count.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace berth::tool {

// "512 B", "4 KiB", "1.5 MiB": at most three digits behind the point, no trailing zeros.
[[nodiscard]] std::string human(bytes n);

// Returns the same, and the number itself if that may be rounded: "2.998 MiB (3144000 B)".
[[nodiscard]] std::string human_exactly(bytes n);

// Returns what printf would print.
[[gnu::format(printf, 1, 2)]] [[nodiscard]] std::string formatted(const char* form, ...);

// Returns a part of some bytes; above 64 bits max_bytes.
[[nodiscard]] inline bytes share_of(bytes whole, double share) noexcept {
  const double part = static_cast<double>(whole) * share;
  return part < 0x1p64 ? static_cast<bytes>(part) : max_bytes;
}

// Reads a byte count (parse_bytes), or "101%" of `whole`, up to 1,000,000 %.
[[nodiscard]] std::optional<bytes> parse_bytes_or_share(std::string_view text, bytes whole);

// Declares an option that takes such a text.
CLI::Option* add_bytes_option(CLI::App& app, const std::string& names, std::optional<bytes>& to,
                              const std::string& what);

}  // namespace berth::tool
