// The shared parts of tests of guards: the mistakes that a guard reports, and their places.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"

namespace berth::support {

inline unsigned char* bytes_of(void* data) {
  return static_cast<unsigned char*>(data);
}

// A line of the test that asks, as guards name it.
inline std::string at_line(std::uint32_t line, source_location here = source_location::current()) {
  const std::string_view path{here.file_name()};
  return std::string{path.substr(path.rfind('/') + 1)} + ":" + std::to_string(line);
}
// Returns a pattern of the last message. Compilers do not agree on the line of a statement of several lines.
inline std::string stops(std::uint32_t line, const std::string& text,
                         source_location here = source_location::current()) {
  std::string lines;
  for (const std::uint32_t at : {line - 1, line, line + 1}) lines += (lines.empty() ? "" : "|") + at_line(at, here);
  return "(" + lines + "): contract: .*" + text;
}
inline std::size_t times(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// The mistakes that a guard told of.
struct told {
  std::vector<mistake_kind> kinds;
  std::vector<std::string> texts;
  std::vector<std::uint32_t> lines;
  [[nodiscard]] mistake_callback callback() {
    return {[](void* context, const memory_mistake& m) {
              auto& my = *static_cast<told*>(context);
              my.kinds.push_back(m.kind);
              my.texts.emplace_back(m.text);
              my.lines.push_back(m.site.line());
            },
            this};
  }
};

// A guard that stops at the first mistake.
class stopping_guard : public testing::Test {
 protected:
  device host_ = device::host();
  stream queue_{host_};
  stream other_{host_};
  pool pool_{host_, {.limit = bytes{64} << 20, .report_leaks = false}};
  guard_adaptor guard_{pool_, {.leaks = false}};

  [[nodiscard]] unsigned char* take(bytes size, source_location site = source_location::current()) {
    return bytes_of(guard_.allocate_raw(size, queue_, site).value());
  }
};

// A guard that tells and goes on.
class telling_guard : public testing::Test {
 protected:
  stream queue_{device::host()};
  pool pool_{device::host(), {.limit = bytes{4} << 20}};
  told told_;
  guard_adaptor guard_{pool_, {.go_on = true, .on_mistake = told_.callback()}};
};

}  // namespace berth::support
