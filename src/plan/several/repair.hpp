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

// First-fits one bundle after the other into the cheapest memory that has room for it. Returns the cheapest result of
// several orders, each with pinned bundles first:
// * by the saving of the cheapest memory for each byte and tick;
// * by birth;
// * by falling size;
// * with `wished` (a memory by bundle, the assignment's), the bundles first that wish for their cheapest memory.
// An order that the wait cuts short gives no result. Slabs have the largest size. A memory opens its next slab when a
// bundle fits no open one. Contract: every bundle has a memory that it may live in. O(orders * (memories + slabs) * n
// log n).
[[nodiscard]] repaired repair(const problem& p, const std::vector<bundle>& bundles,
                              const std::vector<std::vector<double>>& cost, const std::vector<index>& wished,
                              const patience& wait);

}  // namespace berth::plan
