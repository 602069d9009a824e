// stack_left: how much of the stack is left, as a diagnostic. Nothing in Berth depends on it.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <optional>

namespace berth {

// Bytes between the caller's frame and the end of its thread's stack, guard page excluded; nothing where that is not
// known. On Linux; elsewhere always nothing.
//
// A worker thread: exact. The main thread: up to RLIMIT_STACK as it stood at the thread's first call, memory that the
// kernel still has to find and that a mapping in the way may refuse. A fiber or an alternative signal stack is not
// the thread's stack: nothing (the frame lies outside the known bounds).
//
// Cost: the first call of a thread asks the system (0.2 us on a worker; on glibc's main thread /proc/self/maps is read,
// 15 us and more, and the heap may be called), the others take a nanosecond.
[[nodiscard]] std::optional<std::size_t> stack_left() noexcept;

}  // namespace berth
#pragma GCC visibility pop
