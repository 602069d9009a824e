// solve() and spread_bound() within a wait that the caller shares with other work of its own.
#pragma once

#include <span>

#include "berth/plan/bound.hpp"
#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Solves as solve() does without dimensions, uses, steps, links and former places: ignores them. Ignores the deadline
// and the stop of `o`. A buffer costs touched[i] times the cost of its memory; its own bytes if `touched` is empty.
[[nodiscard]] result<plan> solve_within(const problem& p, const options& o, const patience& wait,
                                        std::span<const double> touched = {});

// Works as spread_bound(); returns less if the wait is over.
[[nodiscard]] argument spread_bound_within(const problem& p, bool thorough, const patience& wait);

}  // namespace berth::plan
