// Names from files on their way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace berth::tool {

// Returns the text on one line, without characters that a terminal obeys. Control characters (C0, DEL, C1), bytes that
// are not UTF-8, and marks that turn the direction of writing or break the line become \xNN or \u{NNNN}. All printed
// texts of files and arguments go through it.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace berth::tool
