// Call stacks as return addresses, and the names that the dynamic linker has for them.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace berth::detail {

struct call_stack {
  static constexpr unsigned most = 32;
  std::array<const void*, most> at{};  // innermost first; null behind the last
  bool operator==(const call_stack&) const noexcept = default;
};
struct hash_of_stack {
  [[nodiscard]] std::size_t operator()(const call_stack& s) const noexcept;
};

// Returns at most `depth` callers, without this function and the `skip` innermost ones. Microseconds; allocates
// nothing.
[[nodiscard]] call_stack take_stack(unsigned depth, unsigned skip) noexcept;

// Returns "load(int)+0x12 < main+0x40 < libx.so.1+0x1234". Uses names if the linker knows them (link with -rdynamic for
// a program's own). Else it uses the file and the offset in it, as addr2line takes it. May throw bad_alloc.
[[nodiscard]] std::string text_of(const call_stack& s);

}  // namespace berth::detail
