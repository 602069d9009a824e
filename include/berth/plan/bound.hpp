// Lower bounds on the arena.
#pragma once
#pragma GCC visibility push(default)

#include "berth/plan/certificate.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

// Returns the most bytes (as footprints) that are live at one tick. An alias group counts its largest live member.
// Returns the largest footprint if the problem gives explicit conflicts. Contract: validate() passed. O(n log n).
[[nodiscard]] bytes max_live(const problem& p);

// Returns a lower bound of the bytes that all memories and slabs hold together. Only sums of sizes count, because a
// stack (certificate.hpp) may be spread over them. It is the tallest section, or with `thorough` also the heaviest
// clique of conflicts found within bounded work. Contract: validate() passed. O(n log n).
[[nodiscard]] argument spread_bound(const problem& p, bool thorough);

}  // namespace berth::plan
#pragma GCC visibility pop
