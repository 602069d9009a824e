// Problems of several memories: an assignment of units to memories, then each memory alone.
#pragma once

#include <string_view>
#include <vector>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "berth/plan/solve.hpp"
#include "plan/patience.hpp"
#include "plan/single/parts.hpp"
#include "plan/single/verified.hpp"

namespace berth::plan {

// A plan without offsets.
[[nodiscard]] plan refused(enum status s, std::string_view reason, index culprit, bytes number, bytes bound);

// Plans a problem of one memory at most, cut into slabs where `max_slab` is given.
[[nodiscard]] plan solve_one_memory(const problem& p, const std::optional<bytes>& max_slab, const options& o,
                                    const patience& wait, verified* so_far = nullptr);

struct memories_plan {
  plan layout;
  double cost = 0;
  bool least = false;  // proved: no assignment costs less
};

// cost[u][k]: of units[u] in units[u].memories[k]. Contract: validate() passed and there are memories.
[[nodiscard]] memories_plan solve_memories(const problem& p, const std::vector<unit>& units,
                                           const std::vector<std::vector<double>>& cost, const options& o,
                                           const patience& wait);

}  // namespace berth::plan
