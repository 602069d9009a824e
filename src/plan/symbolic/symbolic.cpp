#include "plan/symbolic/symbolic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "berth/plan/evaluate.hpp"
#include "berth/plan/verify.hpp"
#include "plan/model/size.hpp"
#include "plan/model/within.hpp"
#include "plan/policy.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

// Returns the values at which orders are compared: all at the most (first), all at the least, and all at three steps
// between by ratio. For up to four dimensions also each alone at its least and alone at its most.
std::vector<std::vector<bytes>> sample_points(const problem& p) {
  // Square roots are the same on every machine, other powers are not.
  const auto between = [&](const std::vector<bytes>& low, const std::vector<bytes>& high) {
    std::vector<bytes> out;
    for (std::size_t d = 0; d < low.size(); ++d) {
      const double mean =
          std::sqrt(static_cast<double>(std::max<bytes>(low[d], 1))) * std::sqrt(static_cast<double>(high[d]));
      out.push_back(std::clamp(static_cast<bytes>(std::min(mean, 0x1p62)), low[d], high[d]));
    }
    return out;
  };
  std::vector<bytes> most, least;
  for (const dimension& d : p.dimensions) {
    most.push_back(d.most);
    least.push_back(d.least);
  }
  const std::vector<bytes> middle = between(least, most);
  std::vector<std::vector<bytes>> points{most, least, middle, between(least, middle), between(middle, most)};
  for (std::size_t d = 0; d < p.dimensions.size() && p.dimensions.size() <= 4; ++d) {
    points.push_back(most);
    points.back()[d] = least[d];
    points.push_back(least);
    points.back()[d] = most[d];
  }
  std::sort(points.begin() + 1, points.end());
  points.erase(std::unique(points.begin() + 1, points.end()), points.end());
  return points;
}

// The topmost buffer at each tick.
class skyline {
 public:
  // Puts i on top of what is live with it; calls below(index) for every buffer that it then covers.
  template <class Below>
  void put(const interval& live, index i, Below below) {
    const auto last = cut(live.upper), first = cut(live.lower);
    for (auto at = first; at != last; ++at) {
      if (at->second != nobody) below(at->second);
    }
    top_.erase(std::next(first), last);
    first->second = i;
  }

 private:
  static constexpr index nobody = std::numeric_limits<index>::max();

  // Returns the entry that starts at t, and makes it if needed.
  std::map<tick, index>::iterator cut(tick t) {
    const auto after = top_.upper_bound(t), before = std::prev(after);
    return before->first == t ? before : top_.emplace_hint(after, t, before->second);
  }

  std::map<tick, index> top_{{std::numeric_limits<tick>::min(), nobody}};  // from this tick on
};

// Returns the supports of an order. The upper of two buffers that conflict by lifetime need only rest on a lower one
// that it touches. It rests on the topmost earlier buffers during its lifetime, which lie above all others by
// induction. Each put leaves at most two more steps in the skyline than it found, so a buffer has three supports at
// most in the mean. A buffer that is empty even in the `largest` problem carries nothing and rests on nothing.
plan supports_of(const problem& largest, std::vector<index> order) {
  const auto n = static_cast<index>(order.size());
  std::vector<std::vector<index>> apart(n);  // pairs that the problem names
  const auto name_pair = [&](const pair& q) {
    apart[q.a].push_back(q.b);
    apart[q.b].push_back(q.a);
  };
  std::for_each(largest.separations.begin(), largest.separations.end(), name_pair);
  if (largest.conflicts) std::for_each(largest.conflicts->begin(), largest.conflicts->end(), name_pair);

  plan out;
  skyline live;
  std::vector<bool> placed(n, false);
  std::vector<index> seen_by(n, n);
  out.first_support.push_back(0);
  for (const index i : order) {
    const auto rest_on = [&](index below) {
      if (seen_by[below] == i) return;
      seen_by[below] = i;
      out.supports.push_back(below);
    };
    if (largest.footprint(i) != 0) {
      const buffer& b = largest.buffers[i];
      if (!largest.conflicts && b.lifetimes.empty()) live.put(b.live, i, rest_on);
      if (!largest.conflicts) {
        for (const interval& part : b.lifetimes) live.put(part, i, rest_on);
      }
      for (const index other : apart[i]) {
        if (placed[other]) rest_on(other);
      }
      placed[i] = true;
    }
    out.first_support.push_back(static_cast<std::uint32_t>(out.supports.size()));
  }
  out.order = std::move(order);
  return out;
}

// An order and its arenas at several points, the largest first.
struct rated_order {
  plan supports;  // its order and supports alone
  std::vector<bytes> arenas;
  double over = 0;  // the sum of arenas over bounds

  // The largest values decide, then all points together.
  [[nodiscard]] bool better_than(const rated_order& other) const {
    return arenas[0] != other.arenas[0] ? arenas[0] < other.arenas[0] : over < other.over;
  }
};

// Returns the number of buffers of short sizes that take as long to evaluate as these: a buffer is worth eight terms
// and factors.
std::size_t buffers_worth(const problem& p) {
  std::size_t length = 0;
  for (const buffer& b : p.buffers) {
    for (const size_term& t : b.terms) length += 1 + t.dimensions.size();
  }
  return std::max(p.buffers.size(), length / 8);
}

// A try costs some tens of nanoseconds a buffer and point: 15 ms at effort normal.
std::size_t tries_of(effort level, std::size_t buffers) {
  switch (level) {
    case effort::fast: return 0;
    case effort::normal: return policy::normal_chain_budget / (buffers + policy::chain_buffers);
    case effort::best: return policy::best_chain_budget / (buffers + policy::chain_buffers);
  }
  return 0;
}

class order_search {
 public:
  order_search(const problem& p, const std::vector<std::vector<bytes>>& points, const problem& largest)
      : p_{p}, points_{points}, largest_{largest}, offsets_(p.buffers.size()) {}

  // By point: the least that every plan needs there. Call before the rest.
  void add_bound(bytes bound) { bounds_.push_back(std::max<bytes>(bound, 1)); }

  rated_order rate(std::vector<index> order) {
    rated_order c{supports_of(largest_, std::move(order)), {}, 0};
    for (std::size_t v = 0; v < points_.size(); ++v) {
      c.arenas.push_back(*evaluate(p_, c.supports, points_[v], offsets_));
      c.over += static_cast<double>(c.arenas[v]) / static_cast<double>(bounds_[v]);
    }
    return c;
  }

  // Takes, at each point in turn, a buffer out of the chain that makes the arena as high as it is. Puts it below the
  // one it rests on, or anywhere. Keeps the order if it is no worse.
  void improve(rated_order& best, effort level, const patience& wait) {
    const std::size_t n = p_.buffers.size(), worth = buffers_worth(p_), tries = tries_of(level, worth);
    for (std::size_t k = 0; k < tries && n > 1 && !wait.over(points_.size() * worth); ++k) {
      const std::size_t v = k % points_.size();
      if (best.arenas[v] <= bounds_[v]) continue;
      const std::vector<index> chain = highest_chain(best.supports, points_[v]);  // places in the order, from above
      const std::size_t link = random() % chain.size();
      const index from = chain[link];
      const index to =
          link + 1 < chain.size() && random() % 2 == 0 ? chain[link + 1] : static_cast<index>(random() % n);
      std::vector<index> order = best.supports.order;
      const auto at = [&](index place) { return order.begin() + static_cast<std::ptrdiff_t>(place); };
      if (from < to) {
        std::rotate(at(from), at(from) + 1, at(to) + 1);
      } else {
        std::rotate(at(to), at(from), at(from) + 1);
      }
      rated_order next = rate(std::move(order));
      if (!best.better_than(next)) best = std::move(next);
    }
  }

 private:
  std::vector<index> highest_chain(const plan& order, const std::vector<bytes>& values) {
    (void)*evaluate(p_, order, values, offsets_);
    const auto end_of = [&](index i) {
      return offsets_[i] + align_up(size_of(p_.buffers[i], values), p_.granularity_of(i)) + p_.tail_pad_of(i);
    };
    std::vector<index> place(order.order.size());
    for (index k = 0; k < order.order.size(); ++k) place[order.order[k]] = k;
    std::vector<index> chain(1, 0);
    for (index k = 1; k < order.order.size(); ++k) {
      if (end_of(order.order[k]) > end_of(order.order[chain[0]])) chain[0] = k;
    }
    for (index k = chain[0]; order.first_support[k] != order.first_support[k + 1]; chain.push_back(k)) {
      index highest = order.supports[order.first_support[k]];
      for (std::uint32_t s = order.first_support[k]; s < order.first_support[k + 1]; ++s) {
        if (end_of(order.supports[s]) > end_of(highest)) highest = order.supports[s];
      }
      k = place[highest];
    }
    return chain;
  }

  // Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
  std::uint64_t random() {
    std::uint64_t z = seed_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  const problem& p_;
  const std::vector<std::vector<bytes>>& points_;
  const problem& largest_;
  std::vector<bytes> bounds_, offsets_;
  std::uint64_t seed_ = 0;
};

}  // namespace

result<plan> solve_order(const problem& p, const options& o, const patience& wait) {
  std::vector<std::vector<bytes>> points = sample_points(p);
  std::vector<plan> plans;
  problem largest;
  for (const auto& point : points) {
    if (!plans.empty() && wait.over()) break;
    auto there = at_values(p, point);
    if (!there) return there.error();
    there->capacity.reset();
    auto solved = solve_within(*there, o, wait);
    if (!solved) return solved.error();
    // Sums too large for the solver at one point are no reason to refuse: the other points' orders serve.
    if (!solved->has_offsets()) solved->offsets.assign(p.buffers.size(), 0);
    if (plans.empty()) largest = std::move(*there);
    plans.push_back(std::move(*solved));
  }
  points.resize(plans.size());  // after a stop there are fewer
  order_search search{p, points, largest};
  for (const plan& each : plans) search.add_bound(each.lower_bound());
  std::optional<rated_order> best;
  for (const plan& each : plans) {
    if (best && wait.over()) break;
    std::vector<index> order(p.buffers.size());
    std::iota(order.begin(), order.end(), index{0});
    std::stable_sort(order.begin(), order.end(), [&](index a, index b) { return each.offset(a) < each.offset(b); });
    rated_order next = search.rate(std::move(order));
    if (!best || next.better_than(*best)) best = std::move(next);
  }
  search.improve(*best, o.work, wait);

  plan out = std::move(plans[0]);
  out.order = std::move(best->supports.order);
  out.first_support = std::move(best->supports.first_support);
  out.supports = std::move(best->supports.supports);
  out.deadline_hit = wait.was_over();
  for (std::size_t k = 1; k < plans.size(); ++k) out.work += plans[k].work;
  out.solver = "one order";
  out.offsets.resize(p.buffers.size());
  out.arena_bytes = *evaluate(p, out, points[0], out.offsets);
  out.status = out.arena() == out.lower_bound() ? status::optimal : status::feasible;
  if (const auto broken = verify_order(p, out)) return error{errc::internal, broken->rule, broken->a};
  if (const auto broken = verify_within(largest, out, {})) return error{errc::internal, broken->rule, broken->a};
  if (p.capacity && out.arena() > *p.capacity) {
    out.offsets.clear();
    out.status = out.lower_bound() > *p.capacity ? status::infeasible : status::unknown;
    out.reason = "the order found needs more than the capacity";
    out.number = out.arena();
  }
  return out;
}

}  // namespace berth::plan
