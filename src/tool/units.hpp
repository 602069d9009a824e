// Byte counts for people, in every table of the command.
#pragma once

#include <string>

#include "berth/core/bytes.hpp"

namespace berth::tool {

// "512 B", "4 KiB", "1.5 MiB": at most three digits behind the point, no trailing zeros.
[[nodiscard]] std::string human(bytes n);

}  // namespace berth::tool
