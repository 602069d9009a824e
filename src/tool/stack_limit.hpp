// The largest buffer that a thread's stack bears: the bound of OpenBLAS's MAX_STACK_ALLOC, or of an inline buffer.
#pragma once

#include <cstddef>
#include <optional>

namespace berth::tool {

struct stack_limit {
  std::size_t stack = 0;    // as the thread was asked for
  std::size_t largest = 0;  // a buffer of so many bytes could be written from end to end; 64 more could not
  std::size_t safe = 0;     // ... less what is left for the frames below it
};

// Left for calls of the function with the buffer, and for a signal handler.
inline constexpr std::size_t stack_reserve = 16 << 10;

// Tries buffers, doubled and then halved in between, each on a thread of a child process, where it may overflow.
// Returns nothing without such a thread or child. Takes some 20 children: about 10 ms. Not for builds in which a stack
// overflow is no signal (sanitizers' fake stacks).
[[nodiscard]] std::optional<stack_limit> find_stack_limit(std::size_t stack);

}  // namespace berth::tool
