// Names from files on their way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace berth::tool {

// The text on one line, with nothing in it that a terminal obeys: control characters (C0, DEL, C1), marks that turn the
// direction of writing or break the line, and bytes that are not UTF-8 become \xNN or \u{NNNN}. All that is printed of
// what a file or an argument says goes through it.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace berth::tool
