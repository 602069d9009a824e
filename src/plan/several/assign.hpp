// The memory of each bundle: the cheapest choice under which the live bytes of no memory exceed its capacity.
//
// Dynamic programming over time. A state gives the memory of each live bundle; its value is the least cost of reaching
// it. Chains and graphs of a few live tensors, as compilers make them, keep a handful of states and are solved exactly.
// Prices for room (prices.hpp) bound from below the cost that a state has yet to pay. States that cannot beat the best
// known cost are dropped. If more than `most_states` remain, half of those kept are the best of all. The other half are
// the best for each part of the room taken, and the answer is marked unproved. Capacities count as sums of bytes: the
// caller finds out whether the bundles also fit by address.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "berth/plan/problem.hpp"
#include "plan/patience.hpp"
#include "plan/single/parts.hpp"

namespace berth::plan {

struct assignment {
  std::vector<index> memory_of;  // by bundle; empty: no assignment was found
  double cost = 0;
  double least_cost = 0;  // proved: no assignment costs less
  bool exact = true;      // no cheaper assignment exists, and none at all where memory_of is empty
};

// cost[u][k]: of bundle u in bundles[u].memories[k]. limits[m]: the most live bytes that memory m may hold (nothing:
// unbounded). With explicit conflicts only each bundle's own size counts and the answer is not exact. Nor is it once
// the wait is over: a single state then goes on. Deterministic but for that. O(sections * most_states * (live bundles +
// memories)), and the cost of the prices.
[[nodiscard]] assignment assign(const problem& p, const std::vector<bundle>& bundles,
                                const std::vector<std::vector<double>>& cost,
                                const std::vector<std::optional<bytes>>& limits, std::size_t most_states,
                                const patience& wait = {});

}  // namespace berth::plan
