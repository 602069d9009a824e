// Plans that keep buffers where they were.
#pragma once

#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Solves a problem as solve() does with these former places; ignores the deadline and the stop of `o`. Contract:
// validate() passed, and the problem has no dimensions, uses, steps and links.
[[nodiscard]] result<plan> replan(const problem& p, const former_places& before, const options& o,
                                  const patience& wait);

}  // namespace berth::plan
