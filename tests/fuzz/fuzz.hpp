// The shared parts of the fuzz targets. Each is one function over bytes: libFuzzer makes these up (preset `fuzz`),
// driver.cpp takes those of the corpus, as a plain test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "berth/model/input_error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace berth::fuzz {

// Ends the program, which is how a target says that it has found something.
inline void require(bool ok, std::string_view what) {
  if (ok) return;
  std::fprintf(stderr, "fuzz: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// Runs a reader: input_error is the one exception it may end with, and that is one line about `path`.
template <class Read>
void reading(const std::string& path, Read read) {
  try {
    read();
  } catch (const model::input_error& e) {
    const std::string_view what = e.what();
    require(what.starts_with(path), what);
    require(what.find('\n') == std::string_view::npos, what);
    require(what.size() < 2000, what);
  }
}

// A path under which `bytes` can be read, without a disk: one file for the whole program.
[[nodiscard]] const std::string& path_of(std::string_view bytes);

// The bytes as choices: zeros where they end.
class choices {
 public:
  choices(const std::uint8_t* data, std::size_t size) : left_{data, size} {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const std::uint8_t b = left_.front();
    left_ = left_.subspan(1);
    return b;
  }
  std::size_t below(std::size_t n) { return (byte() | std::size_t{byte()} << 8) % n; }
  template <class T, std::size_t N>
  const T& of(const T (&list)[N]) {
    return list[byte() % N];
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace berth::fuzz
