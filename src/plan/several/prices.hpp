// Prices for room in memories of limited size: a lower bound of the cost of any assignment, and the places of scarce
// room.
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

// Prices the room of each memory. A bound (subgradient.hpp): each bundle takes its least cost plus price, as if alone.
// Less the value of the limits, that costs no more than any assignment. All prices are 0 if a round takes too long
// (policy::price_looks). Deterministic but for the wait. O(policy::memory_prices.rounds * (changes * choices + sections
// * memories)).
[[nodiscard]] memory_prices price_memories(const std::vector<height_change>& changes,
                                           const std::vector<bundle>& bundles,
                                           const std::vector<std::vector<double>>& cost,
                                           const std::vector<std::optional<bytes>>& limits, const patience& wait);

}  // namespace berth::plan
