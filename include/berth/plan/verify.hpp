// verify: an independent check of a plan. Shares no code with any solver.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

inline constexpr index no_buffer = ~index{0};

struct violation {
  const char* rule = "";  // static text: what is violated
  index a = 0;            // the buffer at fault; no_buffer: none is
  index b = 0;            // the other one, where two are (else = a)
  bytes number = 0;       // the offset, arena or capacity that the text speaks of
};

// Returns the first violation, or nothing. Checks first the shape: an offset for every buffer, in a memory it may live
// in. Then alignment, pins, groups, capacity and slabs, reserved ranges, overlaps, separations. Checks the plan's own
// figures last (arena, bound, reuse penalty, and a cost that is not 0). A plan without offsets violates the shape.
// Contract: validate() passed. O(n log n): a sweep over time keeps the live blocks in the order of their offsets.
//
// Dimensions. Proves the order for all values at once. A chain of supports puts one of any two conflicting buffers
// above the other, so that evaluate() cannot let them overlap. O(n log n) if neighbours rest on each other directly, as
// in solve()'s plans; at worst O(n / 64 * supports).
//
// Moves. Stays cover all lifetimes, and each copy has an intact source, a link and enough time. Copies on a link never
// overlap, and each use finds current data. Times and sums agree with the plan. O(n log n + uses * memories + pairs
// that separations and penalties name * stays of a buffer * log n).
[[nodiscard]] std::optional<violation> verify(const problem& p, const plan& answer);

// Checks the offsets, memories and slabs alone and ignores the plan's own figures: for offsets from elsewhere.
[[nodiscard]] std::optional<violation> verify_places(const problem& p, const plan& answer);

}  // namespace berth::plan
#pragma GCC visibility pop
