#include "plan/several/assign.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "plan/mix.hpp"
#include "plan/policy.hpp"
#include "plan/several/heights.hpp"
#include "plan/several/prices.hpp"

namespace berth::plan {
namespace {

// The memory a bundle was put into, on the way to a state.
struct decision {
  std::int64_t before = -1;  // into the list of all decisions
  index bundle = 0;
  index memory = 0;
};

struct state {
  double cost = 0;
  double rank = 0;        // and what its live bundles have yet to pay for room
  std::uint64_t key = 0;  // of its row of `where`: equal rows have equal keys
  std::int64_t last = -1;
};

// States, of which each has a row in two tables.
struct state_table {
  std::vector<state> each;
  std::vector<std::uint8_t> where;  // by slot of a live bundle: its memory + 1; 0 where the slot is free
  std::vector<bytes> load;          // by memory
};

// The state after a new bundle is put into a memory.
struct candidate {
  double cost = 0;
  double rank = 0;
  std::uint32_t from = 0;
  index memory = 0;
};

struct question {
  const std::vector<bundle>& bundles;
  const std::vector<std::vector<double>>& cost;
  const std::vector<std::optional<bytes>>& limits;
  const memory_prices& prices;
  const patience& wait;
};

// Keeps the states of least rank and copies only those. States with equal live bundles arise at a death only. A bound
// of the final cost is a state's rank, plus the least cost of all bundles to come, less the room still to be sold.
class planner {
  using ranked = std::pair<double, std::uint32_t>;  // and a place in candidates_

 public:
  // `enough`: a cost from which on an assignment is of no use.
  planner(const question& q, std::size_t most_states, double enough)
      : bundles_{q.bundles},
        cost_{q.cost},
        limits_{q.limits},
        prices_{q.prices},
        wait_{q.wait},
        most_{most_states},
        enough_{enough + q.prices.rounding},
        slot_of_(q.bundles.size()),
        height_(q.bundles.size()) {
    now_.each.resize(1);
    now_.load.assign(limits_.size(), 0);
    for (std::size_t u = 0; u < bundles_.size(); ++u) to_come_ += least_paid(u);
    for (std::size_t at = 0; at < prices_.price.size(); ++at) to_come_ -= sold(at);
  }

  void apply(const height_change& change) {
    if (begun_ && change.at != at_) end_section();
    at_ = change.at;
    begun_ = true;
    const std::size_t choices = change.first ? bundles_[change.bundle].memories.size() : 1;
    const std::size_t copied = (row_ + limits_.size() * sizeof(bytes)) / policy::state_bytes_a_look;
    if (most_ > 1 && wait_.over(now_.each.size() * (choices * policy::looks_an_assigned_state + copied))) {
      most_ = 1;
      keep_first_only();
    }
    if (change.first) {
      birth(change);
    } else {
      grow(change);
    }
    if (change.last) death(change.bundle);
  }

  assignment finish() {
    assignment found;
    found.exact = exact_;
    if (now_.each.empty()) return found;
    const state& best = *std::min_element(now_.each.begin(), now_.each.end(),
                                          [](const state& x, const state& y) { return x.cost < y.cost; });
    found.cost = best.cost;
    found.memory_of.resize(bundles_.size());
    for (std::int64_t k = best.last; k >= 0; k = decisions_[static_cast<std::size_t>(k)].before) {
      const decision& d = decisions_[static_cast<std::size_t>(k)];
      found.memory_of[d.bundle] = d.memory;
    }
    return found;
  }

 private:
  [[nodiscard]] double least_paid(std::size_t u) const {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < cost_[u].size(); ++k) least = std::min(least, cost_[u][k] + prices_.room[u][k]);
    return least;
  }

  [[nodiscard]] double sold(std::size_t at) const {
    const auto limit = limits_[at % limits_.size()];
    return limit ? prices_.price[at] * static_cast<double>(*limit) : 0;
  }

  // Charges the bundles that were live in the section that ends.
  void end_section() {
    const std::size_t begin = section_++ * limits_.size();
    for (index m = 0; m < limits_.size() && begin < prices_.price.size(); ++m) {
      const double price = prices_.price[begin + m];
      if (price == 0) continue;
      to_come_ += sold(begin + m);
      for (std::size_t s = 0; s < now_.each.size(); ++s) {
        now_.each[s].rank -= price * static_cast<double>(load(now_, s)[m]);
      }
    }
  }

  void keep_first_only() {
    if (now_.each.size() <= 1) return;
    exact_ = false;
    std::size_t first = 0;
    for (std::size_t s = 1; s < now_.each.size(); ++s) {
      if (now_.each[s].rank < now_.each[first].rank) first = s;
    }
    keep_if([&](std::size_t s) { return s == first; });
  }

  std::uint8_t* where(state_table& t, std::size_t s) const { return t.where.data() + s * row_; }
  bytes* load(state_table& t, std::size_t s) const { return t.load.data() + s * limits_.size(); }

  static std::uint64_t key_of(std::size_t slot, std::uint8_t at) { return mix(slot << 8 | at); }

  void birth(const height_change& change) {
    const std::size_t slot = take_slot();
    slot_of_[change.bundle] = slot;
    height_[change.bundle] = change.height;
    list_candidates(change);
    if (candidates_.size() > most_) {
      exact_ = false;
      keep_cheap_and_roomy(change.height);
    }
    next_.each.resize(candidates_.size());
    next_.where.resize(candidates_.size() * row_);
    next_.load.resize(candidates_.size() * limits_.size());
    for (std::size_t s = 0; s < candidates_.size(); ++s) {
      const candidate& c = candidates_[s];
      std::copy_n(where(now_, c.from), row_, where(next_, s));
      std::copy_n(load(now_, c.from), limits_.size(), load(next_, s));
      const auto at = static_cast<std::uint8_t>(c.memory + 1);
      where(next_, s)[slot] = at;
      load(next_, s)[c.memory] += change.height;
      decisions_.push_back({now_.each[c.from].last, change.bundle, c.memory});
      next_.each[s] = {.cost = c.cost,
                       .rank = c.rank,
                       .key = now_.each[c.from].key ^ key_of(slot, at),
                       .last = static_cast<std::int64_t>(decisions_.size()) - 1};
    }
    std::swap(now_, next_);
  }

  void list_candidates(const height_change& change) {
    candidates_.clear();
    const index u = change.bundle;
    to_come_ -= least_paid(u);
    for (std::size_t k = 0; k < bundles_[u].memories.size(); ++k) {
      const index m = bundles_[u].memories[k];
      const double paid = cost_[u][k] + prices_.room[u][k];
      for (std::size_t s = 0; s < now_.each.size(); ++s) {
        if (change.height != 0 && limits_[m] && load(now_, s)[m] + change.height > *limits_[m]) continue;
        const state& from = now_.each[s];
        if (from.rank + paid + to_come_ > enough_) continue;
        candidates_.push_back({from.cost + cost_[u][k], from.rank + paid, static_cast<std::uint32_t>(s), m});
      }
    }
  }

  // Keeps the states of least rank. Keeps others by rank within each part of the fullest memory's load, because later
  // bundles may need room that the live ones do not use.
  void keep_cheap_and_roomy(bytes height) {
    std::vector<ranked> by;
    for (const candidate& c : candidates_) by.emplace_back(c.rank, static_cast<std::uint32_t>(by.size()));
    const auto rest = by.begin() + static_cast<std::ptrdiff_t>(most_ - most_ / policy::roomy_share);
    std::nth_element(by.begin(), rest, by.end());
    const std::vector<double> before = fullness();
    const auto part = [&](const ranked& r) {
      const candidate& c = candidates_[r.second];
      const double full = std::max(before[c.from], share(c.memory, load(now_, c.from)[c.memory] + height));
      return std::min(policy::parts_of_room - 1, static_cast<std::size_t>(full * policy::parts_of_room));
    };
    std::array<std::vector<ranked>, policy::parts_of_room> parts;
    for (auto each = rest; each != by.end(); ++each) parts[part(*each)].push_back(*each);
    by.erase(rest, by.end());
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::size_t left = parts.size() - k;
      const std::size_t most = std::min((most_ - by.size() + left - 1) / left, parts[k].size());
      const auto end = parts[k].begin() + static_cast<std::ptrdiff_t>(most);
      if (most < parts[k].size()) std::nth_element(parts[k].begin(), end, parts[k].end());
      by.insert(by.end(), parts[k].begin(), end);
    }
    std::sort(by.begin(), by.end(), [](const ranked& x, const ranked& y) { return x.second < y.second; });
    for (std::size_t k = 0; k < by.size(); ++k) candidates_[k] = candidates_[by[k].second];
    candidates_.resize(by.size());
  }

  [[nodiscard]] double share(index m, bytes used) const {
    return limits_[m] && *limits_[m] != 0 ? static_cast<double>(used) / static_cast<double>(*limits_[m]) : 0;
  }

  // Returns by state the load of the memory nearest to its limit. A new bundle adds to one memory alone.
  std::vector<double> fullness() {
    std::vector<double> most(now_.each.size(), 0);
    for (std::size_t s = 0; s < most.size(); ++s) {
      for (index m = 0; m < limits_.size(); ++m) most[s] = std::max(most[s], share(m, load(now_, s)[m]));
    }
    return most;
  }

  void grow(const height_change& change) {
    const bytes before = std::exchange(height_[change.bundle], change.height);
    const std::size_t slot = slot_of_[change.bundle];
    keep_if([&](std::size_t s) {
      const auto m = static_cast<index>(where(now_, s)[slot] - 1);
      bytes& used = load(now_, s)[m];
      used = used - before + change.height;
      return change.height <= before || !limits_[m] || used <= *limits_[m];
    });
  }

  // Keeps only the cheapest of the states with all live bundles in the same memories.
  void death(index u) {
    const std::size_t slot = slot_of_[u];
    std::size_t places = 2;
    while (places < 2 * now_.each.size()) places *= 2;
    first_with_.assign(places, 0);
    std::size_t kept = 0;
    keep_if([&](std::size_t s) {
      std::uint8_t& at = where(now_, s)[slot];
      const std::uint64_t key = now_.each[s].key ^= key_of(slot, at);
      at = 0;
      for (std::size_t place = key;; ++place) {
        std::uint32_t& first = first_with_[place & (places - 1)];
        if (first == 0) {
          first = static_cast<std::uint32_t>(++kept);
          return true;
        }
        const std::size_t other = first - 1;
        if (now_.each[other].key == key && std::equal(where(now_, s), where(now_, s) + row_, where(now_, other))) {
          if (now_.each[s].cost < now_.each[other].cost) now_.each[other] = now_.each[s];
          return false;
        }
      }
    });
    free_slots_.push_back(slot);
  }

  // `keep` sees each state once, in order; kept states lie at the front by then.
  template <typename Keep>
  void keep_if(Keep keep) {
    std::size_t kept = 0;
    for (std::size_t s = 0; s < now_.each.size(); ++s) {
      if (!keep(s)) continue;
      if (kept != s) {
        now_.each[kept] = now_.each[s];
        std::copy_n(where(now_, s), row_, where(now_, kept));
        std::copy_n(load(now_, s), limits_.size(), load(now_, kept));
      }
      ++kept;
    }
    now_.each.resize(kept);
  }

  std::size_t take_slot() {
    if (free_slots_.empty()) {
      if (slots_ == row_) widen_rows();
      return slots_++;
    }
    const std::size_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  void widen_rows() {
    const std::size_t wider = std::max<std::size_t>(16, 2 * row_);
    std::vector<std::uint8_t> rows(now_.each.size() * wider, 0);
    for (std::size_t s = 0; s < now_.each.size(); ++s) std::copy_n(where(now_, s), row_, rows.data() + s * wider);
    now_.where = std::move(rows);
    row_ = wider;
  }

  const std::vector<bundle>& bundles_;
  const std::vector<std::vector<double>>& cost_;
  const std::vector<std::optional<bytes>>& limits_;
  const memory_prices& prices_;
  const patience& wait_;
  std::size_t most_;
  double enough_;
  double to_come_ = 0;  // the least that all bundles to come pay, less what room sells for from now on
  std::size_t section_ = 0;
  tick at_ = 0;
  bool begun_ = false;
  std::vector<std::size_t> slot_of_;
  std::vector<bytes> height_;
  std::vector<std::size_t> free_slots_;
  std::size_t slots_ = 0;
  std::size_t row_ = 0;  // bytes of a row of `where`: slots_ or more
  state_table now_, next_;
  std::vector<candidate> candidates_;
  std::vector<std::uint32_t> first_with_;  // by key: the state + 1 that has it
  std::vector<decision> decisions_;
  bool exact_ = true;
};

// Returns a lower bound of the difference between two costs of assignments: 1 if all costs are whole, else 0.
double least_step(const std::vector<std::vector<double>>& cost) {
  double sum = 0;
  for (const auto& choices : cost) {
    for (const double each : choices) {
      if (each != std::floor(each)) return 0;
    }
    sum += *std::max_element(choices.begin(), choices.end());
  }
  return sum < policy::most_exact ? 1 : 0;
}

assignment assign_each_alone(const std::vector<bundle>& bundles, const std::vector<std::vector<double>>& cost,
                             const std::vector<std::optional<bytes>>& limits) {
  assignment found;
  found.exact = false;
  found.memory_of.resize(bundles.size());
  for (std::size_t u = 0; u < bundles.size(); ++u) {
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < bundles[u].memories.size(); ++k) {
      const auto limit = limits[bundles[u].memories[k]];
      if (limit && bundles[u].size > *limit) continue;
      if (!best || cost[u][k] < cost[u][*best]) best = k;
    }
    if (!best) return {.memory_of = {}, .exact = true};  // this bundle fits nowhere
    found.memory_of[u] = bundles[u].memories[*best];
    found.cost += cost[u][*best];
  }
  found.least_cost = found.cost;
  return found;
}

}  // namespace

assignment assign(const problem& p, const std::vector<bundle>& bundles, const std::vector<std::vector<double>>& cost,
                  const std::vector<std::optional<bytes>>& limits, std::size_t most_states, const patience& wait) {
  if (p.conflicts || limits.size() > policy::most_assigned_memories) return assign_each_alone(bundles, cost, limits);
  const auto changes = heights_over_time(p, bundles);
  const memory_prices prices = price_memories(changes, bundles, cost, limits, wait);
  const question q{bundles, cost, limits, prices, wait};
  const auto with = [&](std::size_t states, double enough) {
    planner way{q, states, enough};
    for (const height_change& change : changes) way.apply(change);
    return way.finish();
  };
  const double step = least_step(cost);
  const double least = step > 0 ? std::ceil(prices.least_cost) : prices.least_cost;
  // Few states find a cost first, which the bounds of many are compared with.
  const std::size_t few = std::max<std::size_t>(1, most_states / policy::few_states_share);
  assignment best = with(few, std::numeric_limits<double>::infinity());
  const bool known = !best.memory_of.empty();
  best.exact |= known && best.cost <= least;
  if (!best.exact && few < most_states) {
    assignment other = with(most_states, known ? best.cost - step : std::numeric_limits<double>::infinity());
    if (!known || (!other.memory_of.empty() && other.cost < best.cost)) {
      best = std::move(other);
    } else {
      best.exact = other.exact;
    }
  }
  best.least_cost = best.exact && !best.memory_of.empty() ? best.cost : least;
  return best;
}

}  // namespace berth::plan
