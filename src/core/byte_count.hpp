// Byte counts as people write them: in options of the command and in environment variables.
#pragma once

#include <optional>
#include <string_view>

#include "berth/core/bytes.hpp"

namespace berth {

#pragma GCC visibility push(default)  // for the command
// Reads "16777216", "16MiB", "1.5 GiB" or "16MB": a number and a unit, by 1024 (KiB to EiB) or by 1000 (kB to EB), in
// letters of any size. Drops parts of a byte. Returns nothing if the text is none of these or above 64 bits.
[[nodiscard]] std::optional<bytes> parse_bytes(std::string_view text);
#pragma GCC visibility pop

}  // namespace berth
