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
// 1. Plans again with as many of the costliest pairs kept apart as possible (one memory, one slab, not at effort fast).
// 2. Moves single buffers inside their slab while that lowers the penalty, within the bytes the slab takes (or may).
// 3. Searches a slab of at most 256 buffers for a lower penalty, exhaustively within limits of plans and search nodes.
// Sets answer.reuse_penalty.
void lower_reuse_penalty(const problem& p, const options& o, const patience& wait, plan& answer);

}  // namespace berth::plan
