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

// Replaces the file at `target` by a new one that has the text, with the permissions of `former` if there is one.
int replace_file(const std::string& target, std::string_view text, const struct stat* former) {
  // Writes a draft beside it under a random name that must not exist, so that no other user can have made a link there.
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return errno;
  char name[32];
  std::snprintf(name, sizeof name, ".berth-%016" PRIx64, random);
  const std::string draft = target.substr(0, target.rfind('/') + 1) + name;
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int failed = former != nullptr && ::fchmod(file, former->st_mode & 0777) != 0 ? errno : 0;
  if (const int in_writing = write_and_close(file, text); failed == 0) failed = in_writing;
  if (failed == 0 && std::rename(draft.c_str(), target.c_str()) != 0) failed = errno;
  if (failed != 0) ::unlink(draft.c_str());
  return failed;
}

// Returns 0 for a regular file, and the errno of write_report_file() for anything else.
int refusal_of(const struct stat& there) noexcept {
  if (S_ISREG(there.st_mode)) return 0;
  if (S_ISLNK(there.st_mode)) return ELOOP;
  return S_ISDIR(there.st_mode) ? EISDIR : EINVAL;
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
  return replace_file(target_of(path), text, exists ? &there : nullptr);
}

// A link that another user makes after the look is replaced by rename(), and not followed.
int write_report_file(const std::string& path, std::string_view text) {
  struct stat there {};
  const bool exists = ::lstat(path.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) return errno;
  if (const int refused = exists ? refusal_of(there) : 0; refused != 0) return refused;
  // Permissions that another user gave to the file are not kept.
  const bool own = exists && there.st_uid == ::geteuid();
  return replace_file(path, text, own ? &there : nullptr);
}

int check_report_file(const std::string& path) {
  struct stat there {};
  const bool exists = ::lstat(path.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) return errno;
  if (const int refused = exists ? refusal_of(there) : 0; refused != 0) return refused;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  return ::faccessat(AT_FDCWD, folder.empty() ? "." : folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

}  // namespace berth
