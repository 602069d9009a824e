#include "model/file.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include "berth/model/input_error.hpp"

namespace berth::model {

namespace {

std::string read_at_most(const std::string& path, std::size_t most) try {
  std::error_code status;
  if (std::filesystem::is_directory(path, status)) throw input_error(path, "cannot read: Is a directory");

  // gzread passes a file that is not gzip through unchanged.
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw input_error(path, std::string{"cannot open: "} + std::strerror(errno));
  const struct closer {
    gzFile file;
    ~closer() { gzclose_r(file); }
  } close_at_end{file};
  gzbuffer(file, 1u << 17);

  std::string text;
  constexpr std::size_t least_chunk = std::size_t{1} << 16;
  std::size_t used = 0;
  while (used < most) {
    text.resize(std::min(most, std::max(used + least_chunk, used + used / 2)));
    const auto room = static_cast<unsigned>(std::min<std::size_t>(text.size() - used, 1u << 30));
    const int got = gzread(file, text.data() + used, room);
    int code = Z_OK;
    const char* why = gzerror(file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw input_error(path, std::string{"cannot read: "} + (code == Z_ERRNO ? std::strerror(errno) : why));
    }
    used += static_cast<std::size_t>(got);
    if (got == 0) break;
  }
  text.resize(used);
  return text;
} catch (const std::bad_alloc&) {
  throw input_error(path, "does not fit in memory");
}

}  // namespace

std::string read_file(const std::string& path) {
  return read_at_most(path, std::string{}.max_size());
}

std::string read_start(const std::string& path, std::size_t most) {
  return read_at_most(path, most);
}

void write_file(const std::string& path, std::string_view text) {
  const std::string draft = path + ".part";
  std::FILE* file = std::fopen(draft.c_str(), "wb");
  if (file == nullptr) throw input_error(path, std::string{"cannot write: "} + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(draft.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    std::remove(draft.c_str());
    throw input_error(path, std::string{"cannot write: "} + std::strerror(reason));
  }
}

}  // namespace berth::model
