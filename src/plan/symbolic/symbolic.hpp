// Plans of problems with dimensions.
#pragma once

#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Solves a problem with dimensions; ignores the deadline and the stop of `o`. Contract: validate() passed.
[[nodiscard]] result<plan> solve_order(const problem& p, const options& o, const patience& wait);

}  // namespace berth::plan
