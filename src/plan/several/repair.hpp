// An assignment to memories that fits by address: what lies where it was wished to fits there, the rest elsewhere.
#pragma once

#include <vector>

#include "plan/patience.hpp"
#include "plan/single/parts.hpp"

namespace berth::plan {

struct repaired {
  std::vector<index> memory_of;  // by unit; empty: a unit fits nowhere
  std::vector<bytes> offsets;    // by buffer
  double cost = 0;
};

// First fit by address in the cheapest memory that has room. First come the units whose wish is their cheapest memory
// (`wished`, by unit; may be empty), the others by what the cheapest memory saves a byte and tick. Of several orders
// the cheapest result; nothing is said of those that the wait was too short for. Knows every constraint but slabs.
// O(orders * memories * n log n).
[[nodiscard]] repaired repair(const problem& p, const std::vector<unit>& units,
                              const std::vector<std::vector<double>>& cost, const std::vector<index>& wished,
                              const patience& wait);

}  // namespace berth::plan
