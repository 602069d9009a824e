// An asymmetric fence: one side pays only for a compiler barrier. The other side makes every running thread of the
// process pass a barrier, with membarrier(2).
#pragma once

namespace berth::detail {

// Returns true if the system has it. The first call finds out, not the program's start: global objects may call it too.
[[nodiscard]] bool has_asymmetric_fence() noexcept;

// The expensive side: microseconds. Does nothing if the system has no such fence.
void asymmetric_fence() noexcept;

}  // namespace berth::detail
