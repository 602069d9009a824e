// Lower bounds on the arena.
#pragma once
#pragma GCC visibility push(default)

#include "berth/plan/certificate.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

// The most bytes (as footprints; an alias group counts its largest live member) that are live at one tick. Where
// the problem gives explicit conflicts: the largest footprint. Contract: validate() passed. O(n log n).
[[nodiscard]] bytes max_live(const problem& p);

// What all memories and slabs of a problem must hold together: where a stack (certificate.hpp) may be spread over them,
// only sums of sizes count. The tallest section; `thorough`: or the heaviest clique of conflicts, found within bounded
// work. Contract: validate() passed. O(n log n).
[[nodiscard]] argument spread_bound(const problem& p, bool thorough);

}  // namespace berth::plan
#pragma GCC visibility pop
