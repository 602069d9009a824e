// One memory: the planner's engine below solve().
#pragma once

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"

namespace berth::plan {

// Plans a problem of one memory (`memories` empty, or one: its capacity, alignment and reserved ranges then count).
// Ignores max_slab and reuse_penalties. Deterministic. Contract: validate() passed.
[[nodiscard]] plan solve_single(const problem& p, const options& o);

}  // namespace berth::plan
