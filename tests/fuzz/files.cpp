#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.hpp"

namespace berth::fuzz {

const std::string& path_of(std::string_view bytes) {
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  require(file >= 0 && ftruncate(file, 0) == 0, "no file in memory");
  require(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "no room in memory");
  return path;
}

}  // namespace berth::fuzz
