// Writes files as a whole: all of the text, or the previous content remains.
#pragma once

#include <string>
#include <string_view>

namespace berth {

#pragma GCC visibility push(default)  // for the library of models
// Returns 0, or the errno of the failed call. A regular file is replaced by a new one with the same permissions. So no
// process reads a part of it, and a failure loses no data; links are followed to it. Any other file (a device, a pipe)
// is written in place. A folder is EISDIR.
[[nodiscard]] int write_whole_file(const std::string& path, std::string_view text);
#pragma GCC visibility pop

// For files that an environment variable names: the program may run beside users whom it does not trust.
// Returns 0, or the errno of what failed. Replaces a regular file, or makes a new one. Refuses everything else at that
// path: ELOOP for a link, EISDIR for a folder, EINVAL for a pipe or a device. Never blocks, and never writes into a
// file that was there.
[[nodiscard]] int write_report_file(const std::string& path, std::string_view text);
// Returns 0 if write_report_file() could make or replace a file there now, or the errno that it would return. Changes
// nothing.
[[nodiscard]] int check_report_file(const std::string& path);

}  // namespace berth
