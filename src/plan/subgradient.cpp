#include "plan/subgradient.hpp"

#include <algorithm>

namespace berth::plan {
namespace {

// The step goes at least half of the way along the excess; otherwise it diverges.
constexpr double most_deflected = 0.5;

// Turns the direction towards the exceeded limits, but not straight back. No price falls below 0. Returns the square of
// the direction's length.
double deflect(std::vector<double>& direction, const std::vector<double>& excess, const std::vector<double>& price,
               double deflection) {
  double along = 0, before = 0, straight = 0, length = 0;
  for (std::size_t at = 0; at < excess.size(); ++at) {
    along += excess[at] * direction[at];
    before += direction[at] * direction[at];
    straight += excess[at] * excess[at];
  }
  const double kept = along < 0 ? std::min(-deflection * along / before, -most_deflected * straight / along) : 0;
  for (std::size_t at = 0; at < excess.size(); ++at) {
    direction[at] = excess[at] + kept * direction[at];
    if (price[at] <= 0) direction[at] = std::max(0.0, direction[at]);
    length += direction[at] * direction[at];
  }
  return length;
}

}  // namespace

limit_prices price_limits(std::size_t limits, double upper, const policy::price_steps& steps, const relaxation& relax) {
  limit_prices best{.least_cost = 0, .price = std::vector<double>(limits, 0)};
  std::vector<double> price = best.price, excess(limits), direction(limits, 0);
  double part = 1;
  int stuck = 0;
  for (int round = 0; round < steps.rounds && part > steps.shortest; ++round) {
    const std::optional<double> least_cost = relax(price, excess);
    if (!least_cost) break;
    if (*least_cost > best.least_cost) {
      best = {.least_cost = *least_cost, .price = price};
      stuck = 0;
    } else if (++stuck == steps.before_shorter) {
      part *= steps.shorter;
      stuck = 0;
      price = best.price;
      std::fill(direction.begin(), direction.end(), 0.0);
      continue;
    }
    const double length = deflect(direction, excess, price, steps.deflection);
    if (length <= 0 || *least_cost >= upper) break;
    const double step = part * (upper - *least_cost) / length;
    for (std::size_t at = 0; at < limits; ++at) price[at] = std::max(0.0, price[at] + step * direction[at]);
  }
  return best;
}

}  // namespace berth::plan
