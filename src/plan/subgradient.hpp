// Limits given prices: how dear keeping them must be at the least, and which of them are scarce.
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

// The least cost where everything above a limit pays its price and what is left below is paid back; sets how far each
// limit is exceeded there (negative: not reached). Nothing: it is enough, or there is no choice at all.
using relaxation = std::function<std::optional<double>(const std::vector<double>& price, std::vector<double>& excess)>;

// Lagrangian relaxation (Held and Karp 1971): whatever the prices, what `relax` returns bounds the cost of all that
// keeps the limits from below; subgradient steps of Polyak's length (1969), turned as Camerini, Fratta and Maffioli do
// (1975), look for prices that bound it best. `upper`: what something that keeps the limits costs at most.
[[nodiscard]] limit_prices price_limits(std::size_t limits, double upper, const policy::price_steps& steps,
                                        const relaxation& relax);

}  // namespace berth::plan
