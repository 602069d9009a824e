// Whole files as text, gunzipped if they are gzip (by their first two bytes, not by their name). The path "-" is
// standard input, which is read once, and standard output; a file of that name is "./-".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace berth::model {

// The longest file that is read, gunzipped: an endless one is refused too.
inline constexpr std::size_t longest_text = std::size_t{1} << 31;

// Bounds of unpacked files: the first of these or, if larger, so many times the packed size. Text packs ten to a
// hundred times, a file made to fill memory a thousand.
inline constexpr std::size_t most_unpacked = std::size_t{1} << 26, most_unpacked_ratio = 200;

// The most buffers that are read from text: some gigabytes.
inline constexpr std::size_t most_buffers = std::size_t{1} << 24;

// Reads a file. Throws input_error: the file cannot be read, is a truncated or broken gzip stream, or does not fit in
// memory. Also throws it for one longer than `longest`, or that unpacks beyond the bounds above.
[[nodiscard]] std::string read_file(const std::string& path, std::size_t longest = longest_text);

// A file read in parts, so that its kind is known before it is read whole; it may be a pipe.
class input_file {
 public:
  // Throws input_error, as read_file() does; so do the others.
  explicit input_file(std::string path);
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;
  ~input_file();

  // Appends the next `most` bytes to `text`: fewer only if the file ends.
  void append_to(std::string& text, std::size_t most);

  // Appends the rest to `text`. Throws if that is then longer than `longest`; for a plain file before it is read.
  void append_rest_to(std::string& text, std::size_t longest);

 private:
  std::string path_;
  void* file_ = nullptr;  // zlib's
  std::size_t read_ = 0;  // of the text, so far
};

// Drops the mark that some editors put before UTF-8.
inline void drop_byte_order_mark(std::string& text) {
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
}

// Returns read_file() without that mark.
[[nodiscard]] inline std::string read_text_file(const std::string& path) {
  std::string text = read_file(path);
  drop_byte_order_mark(text);
  return text;
}

// Writes a file of a random name beside `path`, made for it alone, and renames it. A failure thus leaves no partial
// file, and a foreign link is never followed. A link at `path` stays, and its target is replaced. Devices, pipes and
// standard output are written to directly. Throws input_error.
void write_file(const std::string& path, std::string_view text);

}  // namespace berth::model
