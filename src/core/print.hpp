// Appends printf output to a text: for numbers and short names. Append texts of any length directly instead.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace berth::detail {

// Appends at most 600 bytes a call; longer output is cut off.
[[gnu::format(printf, 2, 3)]] inline void print(std::string& out, const char* format, ...) {
  char line[600];
  std::va_list values;
  va_start(values, format);
  const int n = std::vsnprintf(line, sizeof line, format, values);
  va_end(values);
  if (n > 0) out.append(line, std::min<std::size_t>(static_cast<std::size_t>(n), sizeof line - 1));
}

}  // namespace berth::detail
