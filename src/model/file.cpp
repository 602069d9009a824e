#include "model/file.hpp"

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
#include "core/whole_file.hpp"

namespace berth::model {

namespace {

gzFile gzip_of(void* file) {
  return static_cast<gzFile>(file);
}

// Standard input can be read once: a second argument "-" would find an empty file.
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
    gzbuffer(gzip_of(file_), 1u << 17);
    return;
  }
  std::error_code status;
  if (std::filesystem::is_directory(path_, status)) throw input_error(path_, "cannot read: Is a directory");
  // gzread passes a file that is not gzip through unchanged.
  file_ = gzopen(path_.c_str(), "rb");
  if (file_ == nullptr) throw input_error(path_, std::string{"cannot open: "} + std::strerror(errno));
  gzbuffer(gzip_of(file_), 1u << 17);
}

input_file::~input_file() {
  gzclose_r(gzip_of(file_));
}

void input_file::append_to(std::string& text, std::size_t most) try {
  constexpr std::size_t least_chunk = std::size_t{1} << 16;
  const std::size_t before = text.size();
  std::size_t used = before;
  while (used - before < most) {
    if (used == text.capacity()) text.reserve(std::max(used + least_chunk, used + used / 2));
    text.resize(used + std::min({text.capacity() - used, most - (used - before), std::size_t{1} << 20}));
    const int got = gzread(gzip_of(file_), text.data() + used, static_cast<unsigned>(text.size() - used));
    int code = Z_OK;
    const char* why = gzerror(gzip_of(file_), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      std::string_view reason = code == Z_ERRNO ? std::strerror(errno) : why;
      if (reason.starts_with(path_ + ": ")) reason.remove_prefix(path_.size() + 2);  // zlib names the file too
      throw input_error(path_, "cannot read: " + std::string{reason});
    }
    used += static_cast<std::size_t>(got);
    read_ += static_cast<std::size_t>(got);
    if (got == 0) break;
    if (read_ > most_unpacked && gzdirect(gzip_of(file_)) == 0) {
      const auto packed = static_cast<std::size_t>(std::max<z_off_t>(gzoffset(gzip_of(file_)), 0));
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
  // The size is known before for neither a packed file nor a pipe.
  if (path_ != "-" && gzdirect(gzip_of(file_)) != 0 && std::filesystem::is_regular_file(path_, status)) {
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

}  // namespace

void write_file(const std::string& path, std::string_view text) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
      cannot_write(path, errno);
    }
    return;
  }
  if (const int failed = write_whole_file(path, text); failed != 0) cannot_write(path, failed);
}

}  // namespace berth::model
