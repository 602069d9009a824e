// One of the memories of a problem, or its only one: as a whole, or cut into slabs.
#pragma once

#include <optional>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"
#include "plan/single/verified.hpp"

namespace berth::plan {

// Plans a problem of one memory at most, cut into slabs if `max_slab` is given. Moves bundles between slabs with effort
// `moving`.
[[nodiscard]] plan solve_one_memory(const problem& p, const std::optional<bytes>& max_slab, const options& o,
                                    const patience& wait, verified* so_far = nullptr, effort moving = effort::normal);

}  // namespace berth::plan
