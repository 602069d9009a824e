#include "model/file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include "berth/model/input_error.hpp"

namespace berth::model {

namespace {

gzFile stream(void* file) {
  return static_cast<gzFile>(file);
}

// What is read once is gone: a second argument "-" would find an empty file.
int take_standard_input() {
  static std::atomic<bool> taken = false;
  if (taken.exchange(true)) throw input_error("-", "is read only once");
  return ::dup(STDIN_FILENO);
}

}  // namespace

input_file::input_file(std::string path) : path_{std::move(path)} {
  if (path_ == "-") {
    const int in = take_standard_input();
    file_ = in < 0 ? nullptr : gzdopen(in, "rb");
    if (file_ == nullptr) throw input_error(path_, std::string{"cannot open: "} + std::strerror(errno));
    gzbuffer(stream(file_), 1u << 17);
    return;
  }
  std::error_code status;
  if (std::filesystem::is_directory(path_, status)) throw input_error(path_, "cannot read: Is a directory");
  // gzread passes a file that is not gzip through unchanged.
  file_ = gzopen(path_.c_str(), "rb");
  if (file_ == nullptr) throw input_error(path_, std::string{"cannot open: "} + std::strerror(errno));
  gzbuffer(stream(file_), 1u << 17);
}

input_file::~input_file() {
  gzclose_r(stream(file_));
}

void input_file::append_to(std::string& text, std::size_t most) try {
  constexpr std::size_t least_chunk = std::size_t{1} << 16;
  const std::size_t before = text.size();
  std::size_t used = before;
  while (used - before < most) {
    if (used == text.capacity()) text.reserve(std::max(used + least_chunk, used + used / 2));
    text.resize(used + std::min({text.capacity() - used, most - (used - before), std::size_t{1} << 20}));
    const int got = gzread(stream(file_), text.data() + used, static_cast<unsigned>(text.size() - used));
    int code = Z_OK;
    const char* why = gzerror(stream(file_), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      std::string_view reason = code == Z_ERRNO ? std::strerror(errno) : why;
      if (reason.starts_with(path_ + ": ")) reason.remove_prefix(path_.size() + 2);  // zlib names the file too
      throw input_error(path_, "cannot read: " + std::string{reason});
    }
    used += static_cast<std::size_t>(got);
    read_ += static_cast<std::size_t>(got);
    if (got == 0) break;
    if (read_ > most_unpacked && gzdirect(stream(file_)) == 0) {
      const auto packed = static_cast<std::size_t>(std::max<z_off_t>(gzoffset(stream(file_)), 0));
      if (read_ / most_unpacked_ratio > packed) {
        throw input_error(path_, "unpacks to more than 64 MiB and more than 200 times its own size");
      }
    }
  }
  text.resize(used);
} catch (const std::bad_alloc&) {
  throw input_error(path_, "does not fit in memory");
}

void input_file::append_rest_to(std::string& text, std::size_t longest) try {
  const auto refuse = [&] { throw input_error(path_, "longer than " + std::to_string(longest >> 20) + " MiB"); };
  std::error_code status;
  // Neither for what is packed nor for a pipe is the size known before.
  if (path_ != "-" && gzdirect(stream(file_)) != 0 && std::filesystem::is_regular_file(path_, status)) {
    const std::uintmax_t size = std::filesystem::file_size(path_, status);
    if (!status && size > longest) refuse();
    if (!status) text.reserve(static_cast<std::size_t>(size) + 1);
  }
  append_to(text, longest + 1 - std::min(longest, text.size()));
  if (text.size() > longest) refuse();
} catch (const std::bad_alloc&) {
  throw input_error(path_, "does not fit in memory");
}

std::string read_file(const std::string& path, std::size_t longest) {
  std::string text;
  input_file{path}.append_rest_to(text, longest);
  return text;
}

namespace {

[[noreturn]] void cannot_write(const std::string& path, int reason) {
  throw input_error(path == "-" ? "standard output" : path, std::string{"cannot write: "} + std::strerror(reason));
}

// What is not written at once is tried again. Returns an errno, 0 where all is written.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(file, text.data(), text.size());
    if (wrote < 0 && errno != EINTR) return errno;
    if (wrote > 0) text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}

// Of its own, beside `target`. Nobody can have put a file or a link there: it must not exist, and cannot be guessed.
std::string draft_beside(const std::filesystem::path& target) {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) throw input_error(target.string(), "no random number");
  char name[32];
  std::snprintf(name, sizeof name, ".berth-%016llx", static_cast<unsigned long long>(random));
  return (target.parent_path() / name).string();
}

}  // namespace

void write_file(const std::string& path, std::string_view text) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
      cannot_write(path, errno);
    }
    return;
  }
  struct stat there {};
  const bool exists = ::stat(path.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) cannot_write(path, EISDIR);
  if (exists && !S_ISREG(there.st_mode)) {
    const int straight = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (straight < 0) cannot_write(path, errno);
    const int failed = write_all(straight, text);
    if (::close(straight) != 0 || failed != 0) cannot_write(path, failed != 0 ? failed : errno);
    return;
  }
  std::error_code unresolved;
  std::filesystem::path target = path;
  if (exists) target = std::filesystem::canonical(path, unresolved);
  if (unresolved) target = path;
  const std::string draft = draft_beside(target);
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) cannot_write(path, errno);
  int failed = exists && ::fchmod(file, there.st_mode & 0777) != 0 ? errno : 0;  // as the file that it replaces
  if (failed == 0) failed = write_all(file, text);
  if (::close(file) != 0 && failed == 0) failed = errno;
  if (failed == 0 && std::rename(draft.c_str(), target.c_str()) != 0) failed = errno;
  if (failed == 0) return;
  ::unlink(draft.c_str());
  cannot_write(path, failed);
}

}  // namespace berth::model
