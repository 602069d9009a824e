#include "device/host/memory_limits.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "device/host/system.hpp"

namespace berth::detail {
namespace {

// Returns the least number in the files of that name in `folder` and in those around it, down to `mount`.
bytes least_limit(const std::string& mount, std::string_view group, const char* file) {
  bytes least = max_bytes;
  for (std::string path{group};; path.erase(path.rfind('/'))) {
    while (path.ends_with('/')) path.pop_back();
    // Without a limit version 2 shows a word, and version 1 nearly 2^63.
    const bytes limit = number_in((mount + path + '/' + file).c_str(), max_bytes);
    if (limit < max_bytes / 4) least = std::min(least, limit);
    if (path.empty()) return least;
  }
}

}  // namespace

bytes control_group_limit(const char* membership, const std::string& mount) {
  bytes least = max_bytes;
  std::FILE* const file = std::fopen(membership, "re");
  if (file == nullptr) return least;
  char line[4096];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    // hierarchy:controllers:group
    std::string_view text{line};
    if (text.ends_with('\n')) text.remove_suffix(1);
    const std::size_t first = text.find(':');
    const std::size_t second = text.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view group = text.substr(second + 1);
    if (!group.starts_with('/')) continue;
    const std::string controllers = "," + std::string{text.substr(first + 1, second - first - 1)} + ",";
    if (controllers == ",,") {
      least = std::min(least, least_limit(mount, group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, least_limit(mount + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  std::fclose(file);
  return least;
}

bytes resident_memory() noexcept {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  const bool read = std::fscanf(file, "%*u %llu", &pages) == 1;
  std::fclose(file);
  return read ? static_cast<bytes>(pages) * page_size() : 0;
}

}  // namespace berth::detail
