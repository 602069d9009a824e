// One memory cut into slabs of a largest size: the sum of the slabs' arenas is to be small.
#pragma once

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Plans a problem of one memory at most, with every offset in a slab no longer than `max_slab`. Uses one slab if that
// is enough. Otherwise the largest bundles go first, each into the slab that grows least. Tries every split of few
// bundles, unless with effort fast: the answer is then proved. Moves single bundles of more to other slabs, which are
// planned with effort `moving`. Contract: validate() passed.
[[nodiscard]] plan solve_slabs(const problem& p, bytes max_slab, const options& o, const patience& wait,
                               effort moving = effort::normal);

}  // namespace berth::plan
