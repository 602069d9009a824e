// Places the buffers by one pass over time, outwards from the tick at which most is live.
//
// The buffers live at the peak are stacked without a hole. From there the pass goes forwards in time, and then from the
// peak backwards. Each way has a list of free addresses, as an allocator at run time has it. A buffer outside the stack
// dies before the peak or is born after it, so the two ways never meet. Both only have to respect the stack, whose
// places are fixed. The peak, which decides the arena, is packed perfectly.
//
// Two passes, the second where the first ends above the bound:
//   ends      Buffers alive at the next high tick (three quarters of the peak, or more) go to the high end of the
//             addresses, all others to the low end. Then the space in the way at the next peak lies together. Networks
//             of repeated layers end at the bound.
//   best fit  The tightest hole, the lowest of several.
// On 42 networks (seeded, resnet50, G_1, synthetic) the better pass ends 7 % above the bound in the mean. Best fit in
// order of time, as allocators at run time have it, ends 20 % above; first fit by breadth 9 % (docs/decisions/0020).
#pragma once

#include <optional>
#include <vector>

#include "berth/plan/certificate.hpp"
#include "berth/plan/problem.hpp"
#include "plan/model/instance.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

struct swept {
  std::vector<bytes> offsets;  // by buffer
  bytes arena = 0;
  argument why;  // the peak: no arena is below why.bound
};

// Skips the second pass if the first ends within `tolerated` of the bound, as a share of it.
//
// Returns nothing if the problem has more than sizes, alignments and one lifetime a buffer in one memory. Gives up if
// it has to look at too many holes, or if the wait ends within the first pass. Hints and the capacity do not count.
// O(n), 20 to 50 ns a buffer, if the ticks are dense, as node indices are; else O(n log n). Contract: validate()
// passed.
[[nodiscard]] std::optional<swept> sweep(const problem& p, double tolerated = 0, const patience& wait = {});

}  // namespace berth::plan
