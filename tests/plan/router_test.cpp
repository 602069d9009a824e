#include "plan/moves/router.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <map>

namespace berth::plan {
namespace {

constexpr int most_periods = 1000;  // so that long stretches lie between uses

// Draws of any size from the first case on: small draws have no long stretches.
int upto(int most) {
  return *rc::gen::resize(100, rc::gen::inRange(0, most + 1));
}

struct made_model {
  moving_model model;
  std::vector<bytes> taken;   // by others, by memory, then period
  std::vector<double> price;  // as the router takes it, or nothing
  playout idle;
};

made_model any_model() {
  made_model made;
  moving_model& m = made.model;
  const bool usual = upto(3) != 0;  // a fast memory with a limit and a slow one without
  const auto memories = static_cast<index>(usual ? 2 : 2 + upto(1));
  const auto periods = static_cast<std::uint32_t>(1 + upto(most_periods - 1));
  for (std::uint32_t k = 0; k <= periods; ++k) m.begins.push_back(k);
  for (std::uint32_t k = 0; k < periods; ++k) m.duration.push_back(upto(3));
  for (index a = 0; a < memories; ++a) {
    m.cost.push_back(a);
    m.limits.push_back((usual ? a == 1 : upto(2) == 0) ? std::nullopt : std::optional<bytes>{10});
  }
  m.link_of.assign(memories * memories, -1);
  for (index a = 0; a < memories; ++a) {
    for (index b = 0; b < memories; ++b) {
      if (a == b || (!usual && upto(4) == 0)) continue;
      m.link_of[a * memories + b] = static_cast<std::int32_t>(m.links.size());
      m.links.push_back(
          {.from = a, .to = b, .bandwidth = 0.25 * (1 + upto(7)), .latency = static_cast<double>(upto(2))});
    }
  }
  moving_item one{.members = {0}, .size = 4, .footprint = 4};
  for (index a = 0; a < memories; ++a) one.memories.push_back(a);
  one.first = std::min(periods - 1, static_cast<std::uint32_t>(upto(20)));
  one.last = one.first + 1 + static_cast<std::uint32_t>(upto(static_cast<int>(periods - one.first - 1)));
  std::map<std::uint32_t, use_in_period> uses;
  for (int u = upto(4); u > 0; --u) {
    const std::uint32_t at = one.first + static_cast<std::uint32_t>(upto(static_cast<int>(one.last - one.first - 1)));
    uses[at] = {.period = at, .touched = static_cast<double>(upto(100)), .write = upto(3) == 0};
    if (upto(9) == 0) uses[at].memory = static_cast<index>(upto(static_cast<int>(memories) - 1));
  }
  for (const auto& [at, u] : uses) one.uses.push_back(u);
  m.items.push_back(one);
  // Bytes that others take, and prices, in runs.
  const bool priced = upto(3) != 0;
  for (index a = 0; a < memories; ++a) {
    bytes taken = 0;
    double price = 0;
    for (std::uint32_t k = 0; k < periods; ++k) {
      if (k == 0 || upto(100) == 0) {
        taken = static_cast<bytes>(upto(8));
        price = m.limits[a] ? 0.1 * upto(2) : 0;
      }
      made.taken.push_back(taken);
      if (priced) made.price.push_back(price);
    }
  }
  play(m, {{}}, made.idle);
  return made;
}

bool has_room(const made_model& of, index memory, std::uint32_t k) {
  const auto limit = of.model.limits[memory];
  return !limit || of.taken[memory * of.model.periods() + k] + of.model.items[0].footprint <= *limit;
}

double price_of(const made_model& of, index memory, std::uint32_t k) {
  return of.price.empty() ? 0 : of.price[memory * of.model.periods() + k] * 4;
}

// By every copy from every period to every other, of up to `longest_copy`.
class all_copies {
 public:
  explicit all_copies(const made_model& of) : of_{of}, one_{of.model.items[0]} {}

  double least(double stall_weight) {
    const std::uint32_t sets = 1U << one_.memories.size();
    std::vector<std::vector<double>> best(one_.last + 1, std::vector<double>(sets, infinite));
    for (index a = 0; a < one_.memories.size(); ++a) best[one_.first][1U << a] = 0;
    for (std::uint32_t k = one_.first; k < one_.last; ++k) {
      for (std::uint32_t s = sets - 1; s > 0; --s) {
        if (best[k][s] == infinite) continue;
        for (std::uint32_t left = s; left != 0; left &= left - 1) {
          const std::uint32_t less = s & ~(left & (~left + 1));
          if (less != 0) best[k][less] = std::min(best[k][less], best[k][s]);
        }
        if (const auto [all, used] = held(k, s, s); all < infinite) {
          best[k + 1][s] = std::min(best[k + 1][s], best[k][s] + all);
        }
        for (index to = 0; to < one_.memories.size(); ++to) {
          if ((s & 1U << to) == 0) copy(k, s, to, stall_weight, best);
        }
      }
    }
    return *std::min_element(best[one_.last].begin(), best[one_.last].end());
  }

 private:
  // Returns the cost of a period, and the part of it for uses.
  std::pair<double, double> held(std::uint32_t k, std::uint32_t holds, std::uint32_t ready) const {
    double all = 0, used = 0;
    for (index a = 0; a < one_.memories.size(); ++a) {
      if ((holds & 1U << a) == 0) continue;
      if (!has_room(of_, a, k)) return {infinite, 0};
      all += price_of(of_, a, k);
    }
    for (const use_in_period& u : one_.uses) {
      if (u.period != k) continue;
      if (u.write && std::popcount(holds) > 1) return {infinite, 0};
      double least = infinite;
      for (index a = 0; a < one_.memories.size(); ++a) {
        if ((ready & 1U << a) != 0 && (!u.memory || *u.memory == a)) least = std::min(least, u.touched * a);
      }
      used += least;
    }
    return {all + used, used};
  }

  void copy(std::uint32_t begin, std::uint32_t from, index to, double stall_weight,
            std::vector<std::vector<double>>& best) const {
    // Three memories hold no more than three copies, of more there are none here.
    double takes = infinite;
    for (index a = 0; a < one_.memories.size(); ++a) {
      const std::int32_t l = of_.model.link_of[a * one_.memories.size() + to];
      if ((from & 1U << a) != 0 && l >= 0) {
        takes = std::min(takes, of_.model.copy_time(one_, of_.model.links[static_cast<std::size_t>(l)]));
      }
    }
    if (takes == infinite) return;
    double cost = best[begin][from], window = 0;
    for (std::uint32_t k = begin; k < one_.last && k < begin + policy::longest_copy; ++k) {
      const auto [all, used] = held(k, from | 1U << to, from);
      if (all == infinite) return;
      cost += all;
      window += of_.idle.taken[k] + used;
      if (stall_weight == infinite && window < takes) continue;
      double& there = best[k + 1][from | 1U << to];
      there = std::min(there, cost + (stall_weight == infinite ? 0 : std::max(0.0, takes - window) * stall_weight));
    }
  }

  const made_model& of_;
  const moving_item& one_;
};

occupation of_others(const made_model& of) {
  occupation others{of.model};
  for (index a = 0; a < of.model.memories(); ++a) {
    for (std::uint32_t k = 0; k < of.model.periods(); ++k) {
      moving_item other{.footprint = of.taken[a * of.model.periods() + k]};
      others.put(of.model, other, {{.memory = a, .begin = k, .ready = k, .end = k + 1}});
    }
  }
  return others;
}

// Without stalls, which only the playout of all knows.
double cost_of(const made_model& of, const residence& legs) {
  double cost = 0;
  for (const leg& l : legs) {
    for (std::uint32_t k = l.begin; k < l.end; ++k) {
      RC_ASSERT(has_room(of, l.memory, k));
      cost += price_of(of, l.memory, k);
    }
  }
  for (const use_in_period& u : of.model.items[0].uses) cost += time_of(of.model, legs, u);
  return cost;
}

RC_GTEST_PROP(router, finds_the_least_cost_of_all_copies, ()) {
  const made_model of = any_model();
  const occupation others = of_others(of);
  router routes{of.model};
  const room_prices price{of.price, of.model.periods()};
  for (const double stall_weight : {infinite, 0.0}) {
    const residence legs = routes.route(of.model.items[0], others, of.idle, stall_weight, price);
    const double least = all_copies{of}.least(stall_weight);
    RC_ASSERT(legs.empty() == (least == infinite));
    if (legs.empty()) continue;
    const double cost = cost_of(of, legs);
    RC_ASSERT(cost <= least + 1e-9);
    RC_ASSERT(cost >= least - 1e-9);
  }
}

RC_GTEST_PROP(occupation, of_all_at_once_is_that_of_one_after_the_other, ()) {
  const auto number = [](int most) { return static_cast<std::uint32_t>(upto(most)); };
  moving_model m;
  const std::uint32_t periods = 1 + number(300);
  m.duration.assign(periods, 0);
  m.cost = {0, 1};
  m.limits = {bytes{100}, std::nullopt};
  std::vector<residence> where;
  for (std::uint32_t i = number(8); i > 0; --i) {
    moving_item one{.footprint = number(9)};
    one.first = number(static_cast<int>(periods) - 1);
    one.last = one.first + 1 + number(static_cast<int>(periods - one.first) - 1);
    if (number(3) == 0) {
      one.movable = false;
      for (std::uint32_t k = one.first; k < one.last; ++k) one.heights.push_back(number(9));
    }
    where.push_back({{.memory = number(1), .begin = one.first, .ready = one.first, .end = one.last}});
    m.items.push_back(std::move(one));
  }
  const occupation at_once{m, where};
  occupation each{m};
  std::vector<bytes> simple(periods, 0);
  for (std::size_t i = 0; i < where.size(); ++i) {
    each.put(m, m.items[i], where[i]);
    for (std::uint32_t k = where[i][0].begin; where[i][0].memory == 0 && k < where[i][0].end; ++k) {
      simple[k] += m.height(m.items[i], k);
    }
  }
  for (std::uint32_t k = 0; k < periods; ++k)
    RC_ASSERT(at_once.live(0, k) == simple[k] && each.live(0, k) == simple[k]);
  const std::uint32_t from = number(static_cast<int>(periods)), to = from + number(static_cast<int>(periods - from));
  const bytes most = number(20);
  const bool within = std::all_of(simple.begin() + from, simple.begin() + to, [&](bytes b) { return b <= most; });
  RC_ASSERT(at_once.stays_within(0, from, to, most) == within);
  RC_ASSERT(each.stays_within(0, from, to, most) == within);
  for (std::size_t i = 0; i < where.size(); ++i) each.take(m, m.items[i], where[i]);
  RC_ASSERT(each.stays_within(0, 0, periods, 0));
}

}  // namespace
}  // namespace berth::plan
