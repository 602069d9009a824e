// solve(), solve_tiers() and spread_bound() within a wait that the caller shares with other work of its own.
#pragma once

#include <span>

#include "berth/plan/bound.hpp"
#include "berth/plan/tiers.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Solves as solve(), but ignores the deadline and the stop of `o`.
[[nodiscard]] result<plan> solve_within(const problem& p, const options& o, const patience& wait);

[[nodiscard]] result<tier_plan> solve_tiers_within(const problem& p, std::span<const double> touched, const options& o,
                                                   const patience& wait);

// Works as spread_bound(); returns less if the wait is over.
[[nodiscard]] argument spread_bound_within(const problem& p, bool thorough, const patience& wait);

}  // namespace berth::plan
