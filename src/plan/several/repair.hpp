// Memories and offsets chosen together, for problems whose assignment fits in sums of bytes but not by address.
#pragma once

#include <vector>

#include "plan/patience.hpp"
#include "plan/single/parts.hpp"

namespace berth::plan {

struct repaired {
  std::vector<index> memory_of;  // by bundle; empty: a bundle fits nowhere
  std::vector<bytes> offsets;    // by buffer
  std::vector<index> slab_of;    // by buffer, of its memory; empty unless the problem has max_slab
  double cost = 0;
};

// One bundle after the other goes, by first fit, into the cheapest memory that has room for it. Several orders are
// tried, pinned bundles first in each, and the cheapest result counts: by what the cheapest memory saves for each byte
// and tick; by birth; the largest first; and, where `wished` (a memory by bundle, the assignment's) is not empty, with
// those bundles first whose wish is their cheapest memory. An order that the wait cuts short gives no result. Slabs are
// all of the largest size, and the next one of a memory is begun where a bundle fits in none of those that there are.
// Contract: every bundle has a memory that it may live in. O(orders * (memories + slabs) * n log n).
[[nodiscard]] repaired repair(const problem& p, const std::vector<bundle>& bundles,
                              const std::vector<std::vector<double>>& cost, const std::vector<index>& wished,
                              const patience& wait);

}  // namespace berth::plan
