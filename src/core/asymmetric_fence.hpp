// An asymmetric fence: one side pays nothing but a compiler barrier, because the other one makes every running thread
// of the process pass a barrier, with membarrier(2).
#pragma once

namespace berth::detail {

// Whether the system has it. Found out by the first call, not by the program's start: global objects may ask too.
[[nodiscard]] bool has_asymmetric_fence() noexcept;

// The expensive side: microseconds. Nothing where the system has none.
void asymmetric_fence() noexcept;

}  // namespace berth::detail
