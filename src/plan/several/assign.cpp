#include "plan/several/assign.hpp"

#include <algorithm>
#include <utility>

#include "plan/mix.hpp"
#include "plan/policy.hpp"
#include "plan/several/heights.hpp"

namespace berth::plan {
namespace {

// Where a bundle was put, on the way to a state.
struct decision {
  std::int64_t before = -1;  // into the list of all decisions
  index bundle = 0;
  index memory = 0;
};

struct state {
  double cost = 0;
  std::uint64_t key = 0;  // of its row of `where`: equal rows have equal keys
  std::int64_t last = -1;
};

// States, of which each has a row in two tables.
struct state_table {
  std::vector<state> each;
  std::vector<std::uint8_t> where;  // by slot of a live bundle: its memory + 1; 0 where the slot is free
  std::vector<bytes> load;          // by memory
};

// A state that would come of putting a new bundle into a memory.
struct candidate {
  double cost = 0;
  std::uint32_t from = 0;
  index memory = 0;
};

// States are in order of cost, so that what comes of one choice of memory is too, and the cheapest of all choices are
// found by merging; only what is kept is copied. States that agree in all that lives can only come of a death.
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
    now_.each.resize(1);
    now_.load.assign(limits.size(), 0);
  }

  void apply(const height_change& change) {
    const std::size_t choices = change.first ? bundles_[change.bundle].memories.size() : 1;
    const std::size_t copied = (row_ + limits_.size() * sizeof(bytes)) / policy::state_bytes_a_look;
    if (most_ > 1 && wait_.over(now_.each.size() * (choices * policy::looks_an_assigned_state + copied))) {
      most_ = 1;
      exact_ = exact_ && now_.each.size() <= 1;
      now_.each.resize(std::min<std::size_t>(now_.each.size(), 1));
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
    found.cost = now_.each.front().cost;
    found.memory_of.resize(bundles_.size());
    for (std::int64_t k = now_.each.front().last; k >= 0; k = decisions_[static_cast<std::size_t>(k)].before) {
      const decision& d = decisions_[static_cast<std::size_t>(k)];
      found.memory_of[d.bundle] = d.memory;
    }
    return found;
  }

 private:
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
                       .key = now_.each[c.from].key ^ key_of(slot, at),
                       .last = static_cast<std::int64_t>(decisions_.size()) - 1};
    }
    std::swap(now_, next_);
  }

  // In order of cost, and of the states they come from where that is equal.
  void list_candidates(const height_change& change) {
    candidates_.clear();
    run_ends_.assign(1, 0);
    const std::vector<index>& memories = bundles_[change.bundle].memories;
    for (std::size_t k = 0; k < memories.size(); ++k) {
      const index m = memories[k];
      for (std::size_t s = 0; s < now_.each.size(); ++s) {
        if (change.height != 0 && limits_[m] && load(now_, s)[m] + change.height > *limits_[m]) continue;
        candidates_.push_back({now_.each[s].cost + cost_[change.bundle][k], static_cast<std::uint32_t>(s), m});
      }
      run_ends_.push_back(candidates_.size());
    }
    const auto at = [&](std::size_t k) { return candidates_.begin() + static_cast<std::ptrdiff_t>(k); };
    while (run_ends_.size() > 2) {
      std::size_t kept = 1;
      for (std::size_t k = 2; k < run_ends_.size(); k += 2) {
        std::inplace_merge(at(run_ends_[k - 2]), at(run_ends_[k - 1]), at(run_ends_[k]),
                           [](const candidate& x, const candidate& y) {
                             return x.cost != y.cost ? x.cost < y.cost : x.from < y.from;
                           });
        run_ends_[kept++] = run_ends_[k];
      }
      if (run_ends_.size() % 2 == 0) run_ends_[kept++] = run_ends_.back();
      run_ends_.resize(kept);
    }
  }

  // The cheapest, and of the others those that leave the most room.
  void keep_cheap_and_roomy(bytes height) {
    const std::size_t cheap = most_ - most_ / policy::roomy_share;
    const std::vector<double> before = fullness();
    std::vector<std::pair<double, std::size_t>> rest;
    for (std::size_t k = cheap; k < candidates_.size(); ++k) {
      const candidate& c = candidates_[k];
      rest.emplace_back(std::max(before[c.from], share(c.memory, load(now_, c.from)[c.memory] + height)), k);
    }
    const auto end = rest.begin() + static_cast<std::ptrdiff_t>(most_ - cheap);
    std::nth_element(rest.begin(), end, rest.end());
    std::sort(rest.begin(), end, [](const auto& x, const auto& y) { return x.second < y.second; });
    for (std::size_t k = cheap; k < most_; ++k) candidates_[k] = candidates_[rest[k - cheap].second];
    candidates_.resize(most_);
  }

  [[nodiscard]] double share(index m, bytes used) const {
    return limits_[m] && *limits_[m] != 0 ? static_cast<double>(used) / static_cast<double>(*limits_[m]) : 0;
  }

  // Of the memory that is nearest to its limit, by state. A new bundle adds to one memory alone.
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

  // Of states in which all live bundles lie in the same memories only the cheapest, which comes first, is kept.
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
          return false;
        }
      }
    });
    free_slots_.push_back(slot);
  }

  // `keep` sees each state once, in order; those kept before lie at the front by then.
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
  const patience& wait_;
  std::size_t most_;
  std::vector<std::size_t> slot_of_;
  std::vector<bytes> height_;
  std::vector<std::size_t> free_slots_;
  std::size_t slots_ = 0;
  std::size_t row_ = 0;  // bytes of a row of `where`: slots_ or more
  state_table now_, next_;
  std::vector<candidate> candidates_;
  std::vector<std::size_t> run_ends_;      // of candidates_, by choice of memory
  std::vector<std::uint32_t> first_with_;  // by key: the state + 1 that has it
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
