// One pass over time with a list of free blocks, as an allocator at run time would place the buffers.
#pragma once

#include <optional>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::plan {

struct swept {
  std::vector<bytes> offsets;  // by buffer
  bytes arena = 0;
  bytes most_live = 0;  // at one tick
  tick most_live_at = 0;
};

// Best fit, the buffers that start at one tick by index. Nothing where the problem has more than sizes, alignments and
// one lifetime a buffer in one memory, where its ticks are sparse, or where too many holes had to be looked at: the
// time is O(n), some tens of nanoseconds a buffer. The capacity is not looked at. Contract: validate() passed.
[[nodiscard]] std::optional<swept> sweep(const problem& p);

}  // namespace berth::plan
