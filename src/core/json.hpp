// Writing JSON without a library.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace berth {

// Appends a JSON string that may stand inside a <script> element: '<' is escaped, so that no name can close it. Bytes
// that are not UTF-8 become U+FFFD.
void append_string(std::string& out, std::string_view text);

#pragma GCC visibility push(default)  // for the Python module
// Returns the text, with U+FFFD for each byte that is not UTF-8.
[[nodiscard]] std::string as_utf8(std::string_view text);
#pragma GCC visibility pop

void append_number(std::string& out, double n);  // three digits behind the point; 0 if it is not finite
void append_number(std::string& out, std::unsigned_integral auto n) {
  out += std::to_string(n);
}

}  // namespace berth
