#include "plan/moves/prices.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "plan/moves/router.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

// Returns the least time of an item's uses, each period by itself. Copies are free: a plan may make several at once,
// which no path of single copies bounds. One memory serves all uses of a period, or the item lies in at least two. Puts
// the bytes needed for that into `taken`. Returns nothing if a use is served in no memory.
std::optional<double> least_by_period(const moving_model& model, const moving_item& one, const room_prices& price,
                                      occupation& taken) {
  std::vector<index> fits;
  for (const index m : one.memories) {
    if (!model.limits[m] || one.footprint <= *model.limits[m]) fits.push_back(m);
  }
  if (fits.empty()) return std::nullopt;
  const auto footprint = static_cast<double>(one.footprint);
  const auto served_in = [&](index m, const use_in_period& u) {
    return !u.memory || *u.memory == m ? u.touched * model.cost[m] : infinite;
  };
  double time = 0;
  residence legs;
  auto u = one.uses.begin();
  for (std::uint32_t k = one.first; k < one.last; ++k) {
    const auto begin = u;
    while (u != one.uses.end() && u->period == k) ++u;
    struct choice {
      double paid = infinite, used = 0;
      index memory = 0;
    };
    choice alone, cheapest, second;  // the last two by what their room costs
    for (const index m : fits) {
      choice here{price.none() ? 0 : price.of(m, k) * footprint, 0, m};
      if (here.paid < second.paid) second = here;
      if (second.paid < cheapest.paid) std::swap(cheapest, second);
      for (auto it = begin; it != u; ++it) here.used += served_in(m, *it);
      if (here.paid + here.used < alone.paid + alone.used) alone = here;
    }
    double best_of_each = 0;
    for (auto it = begin; it != u; ++it) {
      double least = infinite;
      for (const index m : fits) least = std::min(least, served_in(m, *it));
      best_of_each += least;
    }
    if (best_of_each == infinite) return std::nullopt;
    const bool in_two = cheapest.paid + second.paid + best_of_each < alone.paid + alone.used;
    time += in_two ? best_of_each : alone.used;
    const auto takes = [&](index m) { legs.push_back({.memory = m, .begin = k, .ready = k, .end = k + 1}); };
    takes(in_two ? cheapest.memory : alone.memory);
    if (in_two) takes(second.memory);
  }
  taken.put(model, one, legs);
  return time;
}

}  // namespace

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
      const bool by_period = one.movable && one.memories.size() > 2;
      const std::uint64_t looked_at = by_period ? (one.last - one.first) * one.memories.size() : 0;
      if (wait.over(policy::looks_a_routed_item + looks + looked_at)) return {};
      if (by_period) {
        const auto time = least_by_period(model, one, prices, taken);
        if (!time) return {};
        least_cost += *time;
        continue;
      }
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
