// One memory: the planner's engine below solve().
#pragma once

#include <string_view>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"
#include "plan/single/verified.hpp"

namespace berth::plan {

// Plans a problem of one memory (`memories` empty, or one: its capacity, alignment and reserved ranges then count).
// Ignores max_slab and reuse_penalties, and the deadline and the stop of `o`: `wait` says when to end. Deterministic
// but for that. Contract: validate() passed. Sets *most_hints if it proved that no plan in this arena keeps more hints.
// `so_far`, if any, is shown the plans on the way. The answer is unknown if the wait ends before the first plan, which
// may happen above most_at_once buffers.
[[nodiscard]] plan solve_single(const problem& p, const options& o, const patience& wait = {},
                                bool* most_hints = nullptr, verified* so_far = nullptr);

// A plan without offsets.
[[nodiscard]] plan refused(enum status s, std::string_view reason, index culprit, bytes number,
                           const argument& why = {});

}  // namespace berth::plan
