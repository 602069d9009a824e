// Lower bounds on the arena.
#pragma once

#include "berth/plan/problem.hpp"

namespace berth::plan {

// The most bytes (as footprints; an alias group counts its largest live member) that are live at one tick. Where
// the problem gives explicit conflicts: the largest footprint. Contract: validate() passed. O(n log n).
[[nodiscard]] bytes max_live(const problem& p);

}  // namespace berth::plan
