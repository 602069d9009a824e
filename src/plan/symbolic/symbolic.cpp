#include "berth/plan/symbolic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "plan/model/within.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

// Returns the size at these values after a check of the largest: nothing overflows.
bytes unchecked_size(const std::vector<size_term>& sum_of, std::span<const bytes> values) {
  bytes sum = 0;
  for (const size_term& t : sum_of) {
    bytes product = t.factor;
    for (const index d : t.dimensions) product *= values[d];
    sum += product;
  }
  return sum;
}

result<void> validate_values(const symbolic_sizes& s, std::span<const bytes> values) {
  if (values.size() != s.dimensions.size()) return error{errc::invalid_input, "problem: not one value a dimension"};
  for (std::size_t d = 0; d < values.size(); ++d) {
    const dimension& bounds = s.dimensions[d];
    if (bounds.least > bounds.most) return error{errc::invalid_input, "dimension: its bounds are reversed", d};
    if (values[d] < bounds.least || values[d] > bounds.most) {
      return error{errc::invalid_input, "dimension: the value is out of its bounds", d};
    }
  }
  return {};
}

// Refuses the constraints that an order of the buffers cannot keep.
result<void> validate_kind(const problem& p) {
  if (!p.memories.empty()) return error{errc::invalid_input, "problem: several memories with symbolic sizes"};
  if (p.max_slab) return error{errc::invalid_input, "problem: slabs with symbolic sizes"};
  if (!p.reuse_penalties.empty()) return error{errc::invalid_input, "problem: reuse penalties with symbolic sizes"};
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    if (b.offset) return error{errc::invalid_input, "buffer: pinned, with symbolic sizes", i};
    if (b.hint) return error{errc::invalid_input, "buffer: has a hint, with symbolic sizes", i};
    if (b.alias_group) return error{errc::invalid_input, "buffer: in an alias group, with symbolic sizes", i};
  }
  return {};
}

std::vector<bytes> largest_values(const symbolic_sizes& s) {
  std::vector<bytes> most;
  for (const dimension& d : s.dimensions) most.push_back(d.most);
  return most;
}

// Returns the values at which orders are compared: all at the most (first), all at the least, and all at three steps
// between by ratio. For up to four dimensions also each alone at its least and alone at its most.
std::vector<std::vector<bytes>> sample_points(const symbolic_sizes& s) {
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
  std::vector<bytes> most = largest_values(s), least;
  for (const dimension& d : s.dimensions) least.push_back(d.least);
  const std::vector<bytes> middle = between(least, most);
  std::vector<std::vector<bytes>> points{most, least, middle, between(least, middle), between(middle, most)};
  for (std::size_t d = 0; d < s.dimensions.size() && s.dimensions.size() <= 4; ++d) {
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
symbolic_plan supports_of(const problem& largest, std::vector<index> order) {
  const auto n = static_cast<index>(order.size());
  std::vector<std::vector<index>> apart(n);  // pairs that the problem names
  const auto name_pair = [&](const pair& q) {
    apart[q.a].push_back(q.b);
    apart[q.b].push_back(q.a);
  };
  std::for_each(largest.separations.begin(), largest.separations.end(), name_pair);
  if (largest.conflicts) std::for_each(largest.conflicts->begin(), largest.conflicts->end(), name_pair);

  symbolic_plan out;
  skyline live;
  std::vector<bool> placed(n, false);
  std::vector<index> seen_by(n, n);
  out.first.push_back(0);
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
    out.first.push_back(static_cast<std::uint32_t>(out.supports.size()));
  }
  out.order = std::move(order);
  return out;
}

// An order and its arenas at several points, the largest first.
struct rated_order {
  symbolic_plan plan;
  std::vector<bytes> arenas;
  double over = 0;  // the sum of arenas over bounds

  // The largest values decide, then all points together.
  [[nodiscard]] bool better_than(const rated_order& other) const {
    return arenas[0] != other.arenas[0] ? arenas[0] < other.arenas[0] : over < other.over;
  }
};

// Returns the number of buffers of short sizes that take as long to evaluate as these: a buffer is worth eight terms
// and factors.
std::size_t buffers_worth(const symbolic_sizes& s) {
  std::size_t length = 0;
  for (const std::vector<size_term>& sum_of : s.of) {
    for (const size_term& t : sum_of) length += 1 + t.dimensions.size();
  }
  return std::max(s.of.size(), length / 8);
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
  order_search(const problem& p, const symbolic_sizes& s, const std::vector<std::vector<bytes>>& points,
               const problem& largest)
      : p_{p}, s_{s}, points_{points}, largest_{largest}, offsets_(p.buffers.size()) {}

  // By point: the least that every plan needs there. Call before the rest.
  void add_bound(bytes bound) { bounds_.push_back(std::max<bytes>(bound, 1)); }

  rated_order rate(std::vector<index> order) {
    rated_order c{supports_of(largest_, std::move(order)), {}, 0};
    for (std::size_t v = 0; v < points_.size(); ++v) {
      c.arenas.push_back(*evaluate(p_, s_, c.plan, points_[v], offsets_));
      c.over += static_cast<double>(c.arenas[v]) / static_cast<double>(bounds_[v]);
    }
    return c;
  }

  // Takes, at each point in turn, a buffer out of the chain that makes the arena as high as it is. Puts it below the
  // one it rests on, or anywhere. Keeps the order if it is no worse.
  void improve(rated_order& best, effort level, const patience& wait) {
    const std::size_t n = p_.buffers.size(), worth = buffers_worth(s_), tries = tries_of(level, worth);
    for (std::size_t k = 0; k < tries && n > 1 && !wait.over(points_.size() * worth); ++k) {
      const std::size_t v = k % points_.size();
      if (best.arenas[v] <= bounds_[v]) continue;
      const std::vector<index> chain = highest_chain(best.plan, points_[v]);  // places in the order, from above
      const std::size_t link = random() % chain.size();
      const index from = chain[link];
      const index to =
          link + 1 < chain.size() && random() % 2 == 0 ? chain[link + 1] : static_cast<index>(random() % n);
      std::vector<index> order = best.plan.order;
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
  std::vector<index> highest_chain(const symbolic_plan& plan, const std::vector<bytes>& values) {
    (void)*evaluate(p_, s_, plan, values, offsets_);
    const auto end_of = [&](index i) {
      return offsets_[i] + align_up(unchecked_size(s_.of[i], values), p_.granularity_of(i)) + p_.tail_pad_of(i);
    };
    std::vector<index> place(plan.order.size());
    for (index k = 0; k < plan.order.size(); ++k) place[plan.order[k]] = k;
    std::vector<index> chain(1, 0);
    for (index k = 1; k < plan.order.size(); ++k) {
      if (end_of(plan.order[k]) > end_of(plan.order[chain[0]])) chain[0] = k;
    }
    for (index k = chain[0]; plan.first[k] != plan.first[k + 1]; chain.push_back(k)) {
      index highest = plan.supports[plan.first[k]];
      for (std::uint32_t s = plan.first[k]; s < plan.first[k + 1]; ++s) {
        if (end_of(plan.supports[s]) > end_of(highest)) highest = plan.supports[s];
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
  const symbolic_sizes& s_;
  const std::vector<std::vector<bytes>>& points_;
  const problem& largest_;
  std::vector<bytes> bounds_, offsets_;
  std::uint64_t seed_ = 0;
};

}  // namespace

std::optional<bytes> size_at(std::span<const size_term> sum_of, std::span<const bytes> values) {
  bytes sum = 0;
  for (const size_term& t : sum_of) {
    bytes product = t.factor;
    for (const index d : t.dimensions) {
      if (product != 0 && values[d] > max_address / product) return {};
      product *= values[d];
    }
    if (product > max_address - sum) return {};
    sum += product;
  }
  return sum;
}

result<problem> at_values(const problem& p, const symbolic_sizes& s, std::span<const bytes> values) {
  if (s.of.size() != p.buffers.size()) return error{errc::invalid_input, "problem: not one symbolic size a buffer"};
  if (auto ok = validate_values(s, values); !ok) return ok.error();
  problem out = p;
  for (index i = 0; i < s.of.size(); ++i) {
    for (const size_term& t : s.of[i]) {
      for (const index d : t.dimensions) {
        if (d >= values.size()) return error{errc::invalid_input, "buffer: its size names no dimension", i};
      }
    }
    const auto size = size_at(s.of[i], values);
    if (!size) return error{errc::overflow, "buffer: its largest size exceeds 2^62 bytes", i};
    out.buffers[i].size = *size;
  }
  return out;
}

result<problem> at_most(const problem& p, const symbolic_sizes& s) {
  return at_values(p, s, largest_values(s));
}

result<symbolic_plan> solve_symbolic(const problem& p, const symbolic_sizes& s, const options& o) {
  if (auto ok = validate_kind(p); !ok) return ok.error();
  const patience wait{o};
  std::vector<std::vector<bytes>> points = sample_points(s);
  std::vector<plan> plans;
  problem largest;
  for (const auto& point : points) {
    if (!plans.empty() && wait.over()) break;
    auto there = at_values(p, s, point);
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
  order_search search{p, s, points, largest};
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

  symbolic_plan out = std::move(best->plan);
  out.most = std::move(plans[0]);
  out.most.deadline_hit = wait.was_over();
  for (std::size_t k = 1; k < plans.size(); ++k) out.most.work += plans[k].work;
  out.most.solver = "one order";
  out.most.offsets.resize(p.buffers.size());
  out.most.arena_bytes = *evaluate(p, s, out, points[0], out.most.offsets);
  out.most.status = out.most.arena() == out.most.lower_bound() ? status::optimal : status::feasible;
  if (const auto broken = verify(p, s, out)) return error{errc::internal, broken->rule, broken->a};
  if (const auto broken = verify(largest, out.most)) return error{errc::internal, broken->rule, broken->a};
  return out;
}

result<bytes> evaluate(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan,
                       std::span<const bytes> values, std::span<bytes> offsets) {
  if (auto ok = validate_values(s, values); !ok) return ok.error();
  if (offsets.size() != p.buffers.size()) return error{errc::invalid_input, "problem: not one offset a buffer"};
  const auto end_of = [&](index i) {
    return offsets[i] + align_up(unchecked_size(s.of[i], values), p.granularity_of(i)) + p.tail_pad_of(i);
  };
  bytes arena = 0;
  for (std::size_t k = 0; k < plan.order.size(); ++k) {
    const index i = plan.order[k];
    bytes at = 0;
    for (std::uint32_t below = plan.first[k]; below < plan.first[k + 1]; ++below) {
      at = std::max(at, end_of(plan.supports[below]));
    }
    offsets[i] = align_up(at, p.alignment_of(i));
    arena = std::max(arena, end_of(i));
  }
  return arena;
}

symbolic_evaluator::symbolic_evaluator(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan)
    : ends_(plan.order.size()), offsets_(plan.order.size()) {
  std::map<footprint, std::uint32_t> known;
  std::vector<std::uint32_t> step_of(plan.order.size());
  for (std::uint32_t k = 0; k < plan.order.size(); ++k) {
    const index i = plan.order[k];
    step_of[i] = k;
    const auto [at, fresh] = known.emplace(footprint{s.of[i], p.alignment_of(i), p.granularity_of(i), p.tail_pad_of(i)},
                                           static_cast<std::uint32_t>(footprints_.size()));
    if (fresh) footprints_.push_back(at->first);
    steps_.push_back({i, at->second, plan.first[k + 1]});
  }
  for (const index below : plan.supports) supports_.push_back(step_of[below]);
  for (const footprint& each : footprints_) taken_.push_back({0, each.alignment});
}

bytes symbolic_evaluator::evaluate(std::span<const bytes> values) noexcept {
  for (std::size_t f = 0; f < footprints_.size(); ++f) {
    const footprint& each = footprints_[f];
    taken_[f].size = align_up(unchecked_size(each.sum_of, values), each.granularity) + each.tail_pad;
  }
  bytes arena = 0;
  std::uint32_t below = 0;
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const step& s = steps_[k];
    bytes at = 0;
    for (; below < s.last; ++below) at = std::max(at, ends_[supports_[below]]);
    const taken& it = taken_[s.footprint];
    offsets_[s.buffer] = at = align_up(at, it.alignment);
    ends_[k] = at += it.size;
    arena = std::max(arena, at);
  }
  return arena;
}

}  // namespace berth::plan
