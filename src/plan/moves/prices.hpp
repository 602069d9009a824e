// Prices for room: a lower bound on what any plan with moves costs, and where memory is scarce.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/moves/residence.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

struct room_prices {
  double least_cost = 0;      // proved: no residences that keep the limits cost less
  std::vector<double> price;  // of a byte, by memory, then period
};

// Lagrangian relaxation of the limits (Held and Karp 1971): every byte in a limited memory pays the price of its
// period, each item takes its cheapest residence as if it were alone and copies were never waited for, and what the
// limits would sell at these prices is taken off. Whatever the prices, that bounds the cost of every plan from below;
// subgradient steps look for prices that bound it best. `upper`: the cost of a plan. Deterministic but for the wait.
[[nodiscard]] room_prices price_room(const moving_model& model, double upper, std::uint64_t most_visits,
                                     const patience& wait, std::uint64_t& visits);

}  // namespace berth::plan
