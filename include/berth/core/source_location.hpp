// The caller's file and line, as a default argument.
//
// std::source_location needs a compiler builtin that clang 14 lacks. A type that changes with the compiler must not
// appear in a library's interface. This class has the same members. It holds pointers to static texts.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>

namespace berth {

class source_location {
 public:
  constexpr source_location() noexcept = default;

  [[nodiscard]] static constexpr source_location current(const char* file = __builtin_FILE(),
                                                         std::uint32_t line = __builtin_LINE()) noexcept {
    source_location here;
    here.file_ = file;
    here.line_ = line;
    return here;
  }

  [[nodiscard]] constexpr const char* file_name() const noexcept { return file_; }
  [[nodiscard]] constexpr std::uint32_t line() const noexcept {
    return static_cast<std::uint32_t>(line_);
  }  // 0: unknown

 private:
  const char* file_ = "";
  std::uint64_t line_ = 0;  // as wide as a register, so that a copy does not read more than the caller has written
};

}  // namespace berth
#pragma GCC visibility pop
