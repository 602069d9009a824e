#include "plan/several/assign.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "plan/policy.hpp"

namespace berth::plan {
namespace {

// A bundle's height over time: the largest of its members that are live.
struct height_change {
  tick at = 0;
  index bundle = 0;
  bytes height = 0;  // from `at` on
  bool growing = false;
  bool first = false;
  bool last = false;
};

std::vector<height_change> heights_over_time(const problem& p, const std::vector<bundle>& bundles) {
  std::vector<height_change> changes;
  for (index u = 0; u < bundles.size(); ++u) {
    std::vector<std::pair<tick, std::pair<bool, bytes>>> events;  // ends (false) sort before starts
    for (const index i : bundles[u].members) {
      const buffer& b = p.buffers[i];
      const auto add = [&](const interval& live) {
        events.push_back({live.lower, {true, p.footprint(i)}});
        events.push_back({live.upper, {false, p.footprint(i)}});
      };
      if (b.lifetimes.empty()) add(b.live);
      for (const interval& live : b.lifetimes) add(live);
    }
    std::sort(events.begin(), events.end());
    std::multimap<bytes, int> live;
    const std::size_t begin = changes.size();
    bytes before = 0;
    for (std::size_t k = 0; k < events.size(); ++k) {
      const auto& [at, what] = events[k];
      if (what.first) {
        live.emplace(what.second, 0);
      } else {
        live.erase(live.find(what.second));
      }
      if (k + 1 < events.size() && events[k + 1].first == at) continue;
      const bytes height = live.empty() ? 0 : live.rbegin()->first;
      changes.push_back({.at = at, .bundle = u, .height = height, .growing = height > before});
      before = height;
    }
    changes[begin].first = true;
    changes.back().last = true;
  }
  // Within a tick: first what shrinks or dies, then bundles that live on and grow, then those that are born. So the
  // load is known when a memory is chosen for a new bundle.
  std::stable_sort(changes.begin(), changes.end(), [](const height_change& x, const height_change& y) {
    const auto rank = [](const height_change& c) { return c.first ? 2 : c.growing ? 1 : 0; };
    return x.at != y.at ? x.at < y.at : rank(x) < rank(y);
  });
  return changes;
}

// Where a bundle was put, on the way to a state.
struct decision {
  std::int64_t before = -1;  // into the list of all decisions
  index bundle = 0;
  index memory = 0;
};

struct state {
  std::string where;  // by slot of a live bundle: its memory + 1; 0 where the slot is free
  std::vector<bytes> load;
  double cost = 0;
  double fullness = 0;
  std::int64_t last = -1;
};

class planner {
 public:
  planner(const std::vector<bundle>& bundles, const std::vector<std::vector<double>>& cost,
          const std::vector<std::optional<bytes>>& limits, std::size_t most_states, const patience& wait)
      : bundles_{bundles},
        cost_{cost},
        limits_{limits},
        wait_{wait},
        most_{most_states},
        slot_of_(bundles.size()),
        height_(bundles.size()) {
    state start;
    start.load.assign(limits.size(), 0);
    states_.push_back(std::move(start));
  }

  void apply(const height_change& change) {
    const std::size_t choices = change.first ? bundles_[change.bundle].memories.size() : 1;
    const std::size_t copied = (slots_ + limits_.size() * sizeof(bytes)) / policy::state_bytes_a_look;
    if (most_ > 1 && wait_.over(states_.size() * choices * (policy::looks_an_assigned_state + copied))) {
      most_ = 1;
      trim();
    }
    if (change.first) birth(change.bundle);
    grow(change);
    if (change.last) death(change.bundle);
    if (change.first || change.last) trim();
  }

  assignment finish() {
    assignment found;
    found.exact = exact_;
    if (states_.empty()) return found;
    const auto best = std::min_element(states_.begin(), states_.end(),
                                       [](const state& a, const state& b) { return a.cost < b.cost; });
    found.cost = best->cost;
    found.memory_of.resize(bundles_.size());
    for (std::int64_t k = best->last; k >= 0; k = decisions_[static_cast<std::size_t>(k)].before) {
      const decision& d = decisions_[static_cast<std::size_t>(k)];
      found.memory_of[d.bundle] = d.memory;
    }
    return found;
  }

 private:
  bool fits(const state& s, index m) const { return !limits_[m] || s.load[m] <= *limits_[m]; }

  void birth(index u) {
    std::size_t slot = 0;
    if (free_slots_.empty()) {
      slot = slots_++;
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    slot_of_[u] = slot;
    std::vector<state> next;
    for (const state& s : states_) {
      for (std::size_t k = 0; k < bundles_[u].memories.size(); ++k) {
        state t = s;
        t.where.resize(std::max(t.where.size(), slot + 1), '\0');
        t.where[slot] = static_cast<char>(bundles_[u].memories[k] + 1);
        t.cost += cost_[u][k];
        decisions_.push_back({s.last, u, bundles_[u].memories[k]});
        t.last = static_cast<std::int64_t>(decisions_.size()) - 1;
        next.push_back(std::move(t));
      }
    }
    states_ = std::move(next);
  }

  void grow(const height_change& change) {
    const bytes before = height_[change.bundle];
    height_[change.bundle] = change.height;
    std::erase_if(states_, [&](state& s) {
      const auto m = static_cast<index>(s.where[slot_of_[change.bundle]] - 1);
      s.load[m] = s.load[m] - before + change.height;
      return change.height > before && !fits(s, m);
    });
  }

  void death(index u) {
    for (state& s : states_) s.where[slot_of_[u]] = '\0';
    free_slots_.push_back(slot_of_[u]);
  }

  // Of states in which all live bundles lie in the same memories, only the cheapest is kept; and of all only the most_
  // cheapest.
  void trim() {
    if (states_.size() < 2) return;
    std::sort(states_.begin(), states_.end(), [](const state& a, const state& b) {
      return a.where != b.where ? a.where < b.where : a.cost != b.cost ? a.cost < b.cost : a.last < b.last;
    });
    states_.erase(
        std::unique(states_.begin(), states_.end(), [](const state& a, const state& b) { return a.where == b.where; }),
        states_.end());
    if (states_.size() <= most_) return;
    exact_ = false;
    std::sort(states_.begin(), states_.end(),
              [](const state& a, const state& b) { return a.cost != b.cost ? a.cost < b.cost : a.where < b.where; });
    keep_roomy(most_ - most_ / policy::roomy_share);
    states_.resize(most_);
  }

  // Of the states from there on, those with the most room come first.
  void keep_roomy(std::size_t from) {
    for (std::size_t k = from; k < states_.size(); ++k) states_[k].fullness = fullness(states_[k]);
    const auto at = [&](std::size_t k) { return states_.begin() + static_cast<std::ptrdiff_t>(k); };
    std::partial_sort(at(from), at(most_), states_.end(), [](const state& a, const state& b) {
      return std::tie(a.fullness, a.cost, a.where) < std::tie(b.fullness, b.cost, b.where);
    });
  }

  // Of the memory that is nearest to its limit.
  double fullness(const state& s) const {
    double most = 0;
    for (index m = 0; m < limits_.size(); ++m) {
      if (limits_[m] && *limits_[m] != 0)
        most = std::max(most, static_cast<double>(s.load[m]) / static_cast<double>(*limits_[m]));
    }
    return most;
  }

  const std::vector<bundle>& bundles_;
  const std::vector<std::vector<double>>& cost_;
  const std::vector<std::optional<bytes>>& limits_;
  const patience& wait_;
  std::size_t most_;
  std::vector<std::size_t> slot_of_;
  std::vector<bytes> height_;
  std::vector<std::size_t> free_slots_;
  std::size_t slots_ = 0;
  std::vector<state> states_;
  std::vector<decision> decisions_;
  bool exact_ = true;
};

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
    if (!best) return {.memory_of = {}, .cost = 0, .exact = true};  // this bundle fits nowhere
    found.memory_of[u] = bundles[u].memories[*best];
    found.cost += cost[u][*best];
  }
  return found;
}

}  // namespace

assignment assign(const problem& p, const std::vector<bundle>& bundles, const std::vector<std::vector<double>>& cost,
                  const std::vector<std::optional<bytes>>& limits, std::size_t most_states, const patience& wait) {
  if (p.conflicts || limits.size() > policy::most_assigned_memories) return assign_each_alone(bundles, cost, limits);
  planner states{bundles, cost, limits, most_states, wait};
  for (const height_change& change : heights_over_time(p, bundles)) states.apply(change);
  return states.finish();
}

}  // namespace berth::plan
