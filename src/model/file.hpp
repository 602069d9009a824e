// Whole files as text, gunzipped where they are gzip (by their first two bytes, not by their name).
#pragma once

#include <string>
#include <string_view>

namespace berth::model {

// Throws input_error: the file cannot be read, is a truncated or broken gzip stream, or does not fit in memory.
[[nodiscard]] std::string read_file(const std::string& path);

// Writes beside `path` and renames, so that a failure leaves no partial file. Throws input_error.
void write_file(const std::string& path, std::string_view text);

}  // namespace berth::model
