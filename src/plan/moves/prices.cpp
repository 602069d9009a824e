#include "plan/moves/prices.hpp"

#include <utility>

#include "plan/moves/router.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

limit_prices price_room(const moving_model& model, double upper, std::uint64_t most_visits, const patience& wait,
                        std::uint64_t& visits) {
  const std::size_t periods = model.periods();
  const occupation nobody{model};
  playout idle;
  play(model, std::vector<residence>(model.items.size()), idle);
  router routes{model};
  std::uint64_t told = 0;  // of the looks
  const auto relax = [&](const std::vector<double>& price, std::vector<double>& excess) -> std::optional<double> {
    if (routes.visits() > most_visits) return {};
    const room_prices prices{price, model.periods()};
    occupation taken{model};
    double least_cost = 0;
    for (const moving_item& one : model.items) {
      const std::uint64_t looks = routes.looks() - std::exchange(told, routes.looks());
      if (wait.over(policy::looks_a_routed_item + looks)) return {};
      const residence legs = routes.route(one, nobody, idle, 0, prices);
      if (legs.empty()) return {};  // it fits nowhere, whatever the prices
      taken.put(model, one, legs);
      for (const use_in_period& u : one.uses) least_cost += time_of(model, legs, u);
    }
    for (index m = 0; m < model.memories(); ++m) {
      if (!model.limits[m]) continue;
      for (std::uint32_t k = 0; k < periods; ++k) {
        const std::size_t at = m * periods + k;
        excess[at] = static_cast<double>(taken.live(m, k)) - static_cast<double>(*model.limits[m]);
        least_cost += price[at] * excess[at];
      }
    }
    return least_cost;
  };
  limit_prices found = price_limits(model.memories() * periods, upper, policy::residence_prices, relax);
  visits += routes.visits();
  return found;
}

}  // namespace berth::plan
