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

}  // namespace berth
