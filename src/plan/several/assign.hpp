// Which memory each bundle lives in: the cheapest choice under which the live bytes of no memory exceed its capacity.
//
// Dynamic programming over time. A state says where each bundle that is live now lives; its value is the least cost of
// reaching it. Chains and graphs of a few live tensors, as compilers make them, keep a handful of states and are solved
// exactly. Prices for room (prices.hpp) say what a state has yet to pay: what can come of it at the least. States that
// can lead to nothing cheaper than is known are dropped; where there still are more than `most_states`, half of those
// that go on are the best of all and half the best for each part of the room that is taken, and the answer says that it
// is not proved. Capacities are taken as sums of bytes: whether the bundles also fit by address is for the caller to
// find out.
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
// unbounded). Where the problem has explicit conflicts instead of lifetimes, only each bundle's own size counts and the
// answer is not exact; nor is it where the wait is over: one state then goes on. Deterministic but for that.
// O(sections * most_states * (live bundles + memories)), and what prices take.
[[nodiscard]] assignment assign(const problem& p, const std::vector<bundle>& bundles,
                                const std::vector<std::vector<double>>& cost,
                                const std::vector<std::optional<bytes>>& limits, std::size_t most_states,
                                const patience& wait = {});

}  // namespace berth::plan
