// Slabs as an allocator at run time would fill them: one buffer after the other, in order of birth.
#pragma once

#include <vector>

#include "berth/plan/problem.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

struct grown_slab {
  std::vector<index> members;  // buffers, ascending
  std::vector<bytes> offsets;  // of each
  bytes height = 0;
};

// Each buffer goes into the smallest hole that takes it, else on top of the slab that has to grow least for it, else
// into a slab of its own, none higher than `max_slab`. Nothing where more than lifetimes counts, or the wait is over.
// Contract: no buffer is larger than `max_slab`. O(n * live buffers).
[[nodiscard]] std::vector<grown_slab> grow_slabs(const problem& p, bytes max_slab, const patience& wait);

}  // namespace berth::plan
