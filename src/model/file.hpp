// Whole files as text, gunzipped where they are gzip (by their first two bytes, not by their name).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace berth::model {

// Throws input_error: the file cannot be read, is a truncated or broken gzip stream, or does not fit in memory.
[[nodiscard]] std::string read_file(const std::string& path);

// The first `most` bytes (all, where the file is shorter): enough to tell what a file is before it is read whole.
[[nodiscard]] std::string read_start(const std::string& path, std::size_t most);

// Writes beside `path` and renames, so that a failure leaves no partial file. Throws input_error.
void write_file(const std::string& path, std::string_view text);

}  // namespace berth::model
