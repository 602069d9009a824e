#include "plan/moves/prices.hpp"

#include <algorithm>
#include <utility>

#include "plan/policy.hpp"

namespace berth::plan {

room_prices price_room(const moving_model& model, double upper, std::uint64_t most_visits, const patience& wait,
                       std::uint64_t& visits) {
  const std::size_t periods = model.periods();
  room_prices best{.least_cost = 0, .price = std::vector<double>(model.memories() * periods, 0)};
  std::vector<double> price = best.price, excess(price.size());
  const occupation nobody{model};
  playout idle;
  play(model, std::vector<residence>(model.items.size()), idle);
  router routes{model};
  double part = 1;
  int stuck = 0;
  std::uint64_t told = 0;  // of the looks
  for (int round = 0; round < 200 && part > 1e-3; ++round) {
    occupation taken{model};
    double least_cost = 0;
    for (const moving_item& one : model.items) {
      const std::uint64_t looks = routes.looks() - std::exchange(told, routes.looks());
      if (wait.over(policy::looks_a_routed_item + looks)) return best;
      const residence legs = routes.route(one, nobody, idle, 0, price);
      if (legs.empty()) return best;  // it fits nowhere, whatever the prices
      taken.put(model, one, legs);
      for (const use_in_period& u : one.uses) least_cost += time_of(model, legs, u);
    }
    double length = 0;
    for (index m = 0; m < model.memories(); ++m) {
      for (std::uint32_t k = 0; k < periods; ++k) {
        const std::size_t at = m * periods + k;
        excess[at] = 0;
        if (!model.limits[m]) continue;
        excess[at] = static_cast<double>(taken.live(m, k)) - static_cast<double>(*model.limits[m]);
        least_cost += price[at] * excess[at];
        if (excess[at] > 0 || price[at] > 0) length += excess[at] * excess[at];
      }
    }
    if (least_cost > best.least_cost) {
      best.least_cost = least_cost;
      best.price = price;
      stuck = 0;
    } else if (++stuck == 5) {
      part /= 2;
      stuck = 0;
      price = best.price;
      continue;
    }
    if (length <= 0 || least_cost >= upper || routes.visits() >= most_visits) break;
    const double step = part * (upper - least_cost) / length;
    for (std::size_t at = 0; at < price.size(); ++at) price[at] = std::max(0.0, price[at] + step * excess[at]);
  }
  visits += routes.visits();
  return best;
}

}  // namespace berth::plan
