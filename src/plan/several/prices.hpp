// Prices for room in memories of limited size: a lower bound on what any assignment costs, and where room is scarce.
#pragma once

#include <optional>
#include <vector>

#include "plan/patience.hpp"
#include "plan/several/heights.hpp"

namespace berth::plan {

struct memory_prices {
  double least_cost = 0;                  // proved: no assignment costs less; infinite: there is none
  double rounding = 0;                    // what sums of costs and these prices may be wrong by
  std::vector<double> price;              // of a byte: [section * memories + m]; from one change to the next tick
                                          // that has one is a section. Empty: nothing has a price
  std::vector<std::vector<double>> room;  // [u][k]: what bundle u pays over its life in bundles[u].memories[k]
};

// Whatever the prices, each bundle where its cost and what it pays for room are least, as if it were alone, less what
// the limits would sell, costs no more than any assignment (subgradient.hpp). Deterministic but for the wait. Where a
// round takes too long (policy::price_looks) no room has a price. O(policy::memory_prices.rounds * (changes * choices +
// sections * memories)).
[[nodiscard]] memory_prices price_memories(const std::vector<height_change>& changes,
                                           const std::vector<bundle>& bundles,
                                           const std::vector<std::vector<double>>& cost,
                                           const std::vector<std::optional<bytes>>& limits, const patience& wait);

}  // namespace berth::plan
