// Placing the buffers by one pass over time, outwards from the tick at which most is live.
//
// All that is live at the peak is stacked without a hole. From there the pass goes forwards in time, and then from the
// peak backwards, each way with a list of what is free, as an allocator at run time would have it. A buffer that is not
// in the stack dies before the peak or is born after it, so the two ways never meet: both only have to respect the
// stack, whose places are fixed. And the peak itself, which decides the arena, is packed perfectly.
//
// Two passes, the second where the first ends above the bound:
//   ends      What is still alive at the next high tick (three quarters of the peak, or more) goes to the high end of
//             the addresses, all else to the low end: then what is in the way at the next peak lies together. Networks
//             of repeated layers end at the bound.
//   best fit  The tightest hole, the lowest of several.
// Of 42 networks (seeded, resnet50, G_1, synthetic) the better one ends 7 % above the bound in the mean; best fit in
// order of time, as allocators at run time have it, 20 %; first fit by breadth 9 % (docs/decisions/0020).
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

// The second pass is left out where the first ends within `tolerated` of the bound, as a share of it.
//
// Hints do not count. Nothing where the problem has more besides than sizes, alignments and one lifetime a buffer in
// one memory, where too many holes had to be looked at, or where the wait was over before the first pass was. The
// capacity is not looked at. O(n), 20 to 50 ns a buffer, where the ticks are dense, as node indices are; else O(n log
// n). Contract: validate() passed.
[[nodiscard]] std::optional<swept> sweep(const problem& p, double tolerated = 0, const patience& wait = {});

}  // namespace berth::plan
