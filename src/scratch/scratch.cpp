#include "berth/scratch/scratch.hpp"

#include <cstdio>
#include <new>
#include <stdexcept>

namespace berth::detail {

void scratch_too_long(source_location where) {
#if defined(__cpp_exceptions)
  static_cast<void>(where);
  throw std::length_error{"berth::scratch: the size exceeds the address space"};
#else
  contract_violation("scratch: the size exceeds the address space", where);
#endif
}

void scratch_no_memory(source_location where) {
#if defined(__cpp_exceptions)
  static_cast<void>(where);
  throw std::bad_alloc{};
#else
  contract_violation("scratch: out of memory (take the nothrow form to go on)", where);
#endif
}

void scratch_inline_overrun(std::size_t size, source_location where) noexcept {
  char text[96];
  std::snprintf(text, sizeof text, "scratch: bytes were written past the end of %zu inline bytes", size);
  contract_violation(text, where);
}

}  // namespace berth::detail
