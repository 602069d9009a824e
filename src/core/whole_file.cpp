#include "core/whole_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace berth {
namespace {

// Continues after partial writes, and closes the file.
int write_and_close(int file, std::string_view text) noexcept {
  int failed = 0;
  while (!text.empty() && failed == 0) {
    const ssize_t wrote = ::write(file, text.data(), text.size());
    if (wrote < 0 && errno != EINTR) failed = errno;
    if (wrote > 0) text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (::close(file) != 0 && failed == 0) failed = errno;
  return failed;
}

// Returns the target of the links, which need not exist yet.
std::string target_of(std::string path) {
  constexpr int most_links = 40;  // as many as Linux follows
  for (int links = 0; links < most_links; ++links) {
    std::error_code no_link;
    const std::filesystem::path to = std::filesystem::read_symlink(path, no_link);
    if (no_link) break;
    path = (std::filesystem::path{path}.parent_path() / to).string();
  }
  return path;
}

}  // namespace

int write_whole_file(const std::string& path, std::string_view text) {
  struct stat there {};
  const bool exists = ::stat(path.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) return EISDIR;
  if (exists && !S_ISREG(there.st_mode)) {
    const int straight = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return straight < 0 ? errno : write_and_close(straight, text);
  }
  const std::string target = target_of(path);
  // A name of its own beside the target. It must not exist and cannot be guessed, so no other process can have put a
  // file or a link there.
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return errno;
  char name[32];
  std::snprintf(name, sizeof name, ".berth-%016" PRIx64, random);
  const std::string draft = target.substr(0, target.rfind('/') + 1) + name;
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int failed = exists && ::fchmod(file, there.st_mode & 0777) != 0 ? errno : 0;
  if (const int in_writing = write_and_close(file, text); failed == 0) failed = in_writing;
  if (failed == 0 && std::rename(draft.c_str(), target.c_str()) != 0) failed = errno;
  if (failed != 0) ::unlink(draft.c_str());
  return failed;
}

}  // namespace berth
