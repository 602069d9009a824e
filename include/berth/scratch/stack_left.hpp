// stack_left: how much of the stack is left, as a diagnostic. Berth itself does not depend on it.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <optional>

namespace berth {

// Returns the bytes between the caller's frame and the end of its thread's stack, guard page excluded. Returns nothing
// if that is unknown, and always nothing on systems other than Linux.
// * A worker thread: exact.
// * The main thread: up to RLIMIT_STACK as it stood at the thread's first call. The kernel must still find that memory,
//   and a mapping in the way may prevent it.
// * A fiber or an alternative signal stack is not the thread's stack: nothing, as the frame lies outside the known
//   bounds.
//
// Cost: a nanosecond, except for the first call of a thread, which asks the system: 0.2 us on a worker. On glibc's main
// thread it reads /proc/self/maps, which takes 15 us and more, and may call the heap.
[[nodiscard]] std::optional<std::size_t> stack_left() noexcept;

}  // namespace berth
#pragma GCC visibility pop
