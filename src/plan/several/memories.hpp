// Problems of several memories: an assignment of bundles to memories, then each memory alone.
#pragma once

#include <vector>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"
#include "plan/single/parts.hpp"

namespace berth::plan {

struct memories_plan {
  plan layout;
  double cost = 0;
  double cost_bound = 0;  // proved: no assignment costs less

  [[nodiscard]] bool least() const { return layout.has_offsets() && cost <= cost_bound; }
};

// cost[u][k]: of bundles[u] in bundles[u].memories[k]. Contract: validate() passed and there are memories.
[[nodiscard]] memories_plan solve_memories(const problem& p, const std::vector<bundle>& bundles,
                                           const std::vector<std::vector<double>>& cost, const options& o,
                                           const patience& wait);

}  // namespace berth::plan
