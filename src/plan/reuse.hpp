// The second objective: fewer reuse penalties paid in the arena that was found.
#pragma once

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

// The sum of the weights of the penalties whose two buffers share bytes. O(penalties).
[[nodiscard]] double reuse_penalty_of(const problem& p, const plan& answer);

// Moves single buffers inside their slab of their memory, one after the other, as long as that lowers the penalty;
// never beyond what the slab already takes. Sets answer.reuse_penalty. Members of alias groups and pinned buffers stay.
// Deterministic. O(rounds * penalties * buffers), with few rounds.
void lower_reuse_penalty(const problem& p, plan& answer);

}  // namespace berth::plan
