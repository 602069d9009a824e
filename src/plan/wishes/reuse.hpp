// The second objective: fewer reuse penalties paid in the arena that was found.
#pragma once

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Returns the sum of the weights of the penalties whose two buffers share bytes. O(penalties).
[[nodiscard]] double reuse_penalty_of(const problem& p, const plan& answer);

// Lowers the reuse penalty in the same arena (within the capacity if `o` says that penalties come first):
// 1. Moves single buffers inside their slab while that lowers the penalty, within the bytes the slab takes (or may).
// 2. Takes out a few buffers around a paying pair, puts them back and keeps the result if it pays no more, until the
//    looks of the effort are spent: a large neighbourhood search.
// Sets answer.reuse_penalty.
void lower_reuse_penalty(const problem& p, const options& o, const patience& wait, plan& answer);

}  // namespace berth::plan
