// Plans in which buffers change their memory while they live.
#pragma once

#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Solves a problem with uses, steps or links; ignores the deadline and the stop of `o`. Contract: validate() passed.
[[nodiscard]] result<plan> solve_moves(const problem& p, const options& o, const patience& wait);

}  // namespace berth::plan
