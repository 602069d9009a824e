// Files that Berth writes: all of the text, or what was there before.
#pragma once

#include <string>
#include <string_view>

namespace berth {

#pragma GCC visibility push(default)  // for the library of models
// 0, or the errno of what failed. A regular file is replaced by a new one with the same permissions, so that nobody
// reads a part of it and a failure loses nothing; links are followed to it. What is no regular file (a device, a pipe)
// is written to as it is. A folder is EISDIR.
[[nodiscard]] int write_whole_file(const std::string& path, std::string_view text);
#pragma GCC visibility pop

}  // namespace berth
