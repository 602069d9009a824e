// Contract checks: the caller's mistakes (a double free, a stream of another device, a freed view).
//
// A violated contract prints one line to standard error, "berth: FILE:LINE: contract: WHAT", and aborts. It is never
// thrown: the state after a broken contract cannot be unwound. The line names the caller's place, so a public function
// that checks takes a source_location and passes it on.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>

namespace berth {

// --- The caller's file and line, as a default argument.
//
// std::source_location needs a compiler builtin that clang 14 lacks. A type that changes with the compiler must not
// appear in a library's interface. This class has the same members. It holds pointers to static texts.

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

// Prints the line above and aborts. Allocates nothing. Safe from any thread.
[[noreturn]] void contract_violation(const char* what, source_location where) noexcept;

// Checks `ok`, in release builds too: keep it cheap. Costs one predicted branch.
constexpr void expects(bool ok, const char* what, source_location where = source_location::current()) noexcept {
  if (!ok) [[unlikely]]
    contract_violation(what, where);
}

}  // namespace berth
#pragma GCC visibility pop
