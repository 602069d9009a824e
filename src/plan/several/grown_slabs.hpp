// Slabs filled one buffer after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "berth/plan/problem.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

struct grown_slab {
  std::vector<index> members;  // buffers, ascending
  std::vector<bytes> offsets;  // of each
  bytes height = 0;
};

enum class slab_order : std::uint8_t {
  birth,  // as an allocator at run time would: each buffer into the smallest hole that takes it, else on top of the
          // slab that has to grow least for it. O(n * live buffers)
  size,   // the largest first, each at the lowest place of the first slab that takes it. O(n * n)
};

// Fills slabs of at most `max_slab`; a buffer that fits no slab begins a new one. Returns nothing if the problem has
// more than lifetimes, or if the wait is over. Contract: no buffer is larger than `max_slab`.
[[nodiscard]] std::vector<grown_slab> grow_slabs(const problem& p, bytes max_slab, slab_order by, const patience& wait);

}  // namespace berth::plan
