// Prices for room: a lower bound of the cost of any plan with moves, and the places of scarce memory.
#pragma once

#include <cstdint>

#include "plan/moves/residence.hpp"
#include "plan/patience.hpp"
#include "plan/subgradient.hpp"

namespace berth::plan {

// Prices a byte by memory, then period. Every byte in a limited memory pays the price of its period. Each item takes
// its cheapest residence, as if it were alone and no copy were waited for. `upper`: the cost of a plan. Deterministic
// but for the wait.
[[nodiscard]] limit_prices price_room(const moving_model& model, double upper, std::uint64_t most_visits,
                                      const patience& wait, std::uint64_t& visits);

}  // namespace berth::plan
