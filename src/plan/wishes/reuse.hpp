// The second objective: fewer reuse penalties paid in the arena that was found.
#pragma once

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// The sum of the weights of the penalties whose two buffers share bytes. O(penalties).
[[nodiscard]] double reuse_penalty_of(const problem& p, const plan& answer);

// Plans again, in the same arena (within the capacity where `o` says that penalties come first), with as many of the
// dearest pairs as possible kept apart (of one memory in one slab, and not with little effort); then moves single
// buffers inside their slab as long as that lowers the penalty, never beyond what the slab already takes (or may);
// then, where a slab has 256 buffers at most, searches for what pays less with each buffer in the slab where it is:
// within a limit of plans and search nodes all there is. Sets answer.reuse_penalty.
void lower_reuse_penalty(const problem& p, const options& o, const patience& wait, plan& answer);

}  // namespace berth::plan
