// Prices of limits: a lower bound of the cost of keeping them, and the scarce ones.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plan/policy.hpp"

namespace berth::plan {

struct limit_prices {
  double least_cost = 0;      // proved: what keeps the limits costs no less
  std::vector<double> price;  // of what is above each limit
};

// Returns the least cost if everything above a limit pays its price and the rest below is paid back. Sets the excess
// over each limit there (negative: not reached). Returns nothing to end: the bound is enough, or there is no choice at
// all.
using relaxation = std::function<std::optional<double>(const std::vector<double>& price, std::vector<double>& excess)>;

// Prices limits by Lagrangian relaxation (Held and Karp 1971). The result of `relax` at any prices bounds the cost
// within the limits from below. Subgradient steps look for the prices of the best bound. Their length is Polyak's
// (1969), their direction that of Camerini, Fratta and Maffioli (1975). `upper`: the cost of a solution within the
// limits.
[[nodiscard]] limit_prices price_limits(std::size_t limits, double upper, const policy::price_steps& steps,
                                        const relaxation& relax);

}  // namespace berth::plan
