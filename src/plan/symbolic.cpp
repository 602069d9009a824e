#include "berth/plan/symbolic.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "berth/core/contract.hpp"

namespace berth::plan {
namespace {

// The size at these values; nothing above max_address.
std::optional<bytes> checked_size(const std::vector<size_term>& sum_of, std::span<const bytes> values) {
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

// As above where the largest values have been checked: nothing overflows.
bytes size_at(const std::vector<size_term>& sum_of, std::span<const bytes> values) {
  bytes sum = 0;
  for (const size_term& t : sum_of) {
    bytes product = t.factor;
    for (const index d : t.dimensions) product *= values[d];
    sum += product;
  }
  return sum;
}

result<void> check_values(const symbolic_sizes& s, std::span<const bytes> values) {
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

// What no order of the buffers can keep.
result<void> check_kind(const problem& p) {
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

// Which buffer is topmost at each tick.
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

  // The entry that starts at t.
  std::map<tick, index>::iterator cut(tick t) {
    const auto after = top_.upper_bound(t), before = std::prev(after);
    return before->first == t ? before : top_.emplace_hint(after, t, before->second);
  }

  std::map<tick, index> top_{{std::numeric_limits<tick>::min(), nobody}};  // from this tick on
};

// Of the pairs that conflict by lifetime only those that touch: a buffer rests on what is topmost, in its lifetime,
// among those before it in the order; the rest lies below that by induction. At most three supports a buffer in the
// mean, since each put leaves at most two more steps in the skyline than it finds. What is empty even in the `largest`
// problem carries and rests on nothing.
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

}  // namespace

result<problem> at_values(const problem& p, const symbolic_sizes& s, std::span<const bytes> values) {
  if (s.of.size() != p.buffers.size()) return error{errc::invalid_input, "problem: not one symbolic size a buffer"};
  if (auto ok = check_values(s, values); !ok) return ok.error();
  problem out = p;
  for (index i = 0; i < s.of.size(); ++i) {
    for (const size_term& t : s.of[i]) {
      for (const index d : t.dimensions) {
        if (d >= values.size()) return error{errc::invalid_input, "buffer: its size names no dimension", i};
      }
    }
    const auto size = checked_size(s.of[i], values);
    if (!size) return error{errc::overflow, "buffer: its largest size exceeds 2^62 bytes", i};
    out.buffers[i].size = *size;
  }
  return out;
}

result<problem> at_most(const problem& p, const symbolic_sizes& s) {
  return at_values(p, s, largest_values(s));
}

result<symbolic_plan> solve_symbolic(const problem& p, const symbolic_sizes& s, const options& o) {
  if (auto ok = check_kind(p); !ok) return ok.error();
  std::vector<std::vector<bytes>> points{largest_values(s)};  // first: it decides
  std::vector<bytes>& middle = points.emplace_back();
  for (const dimension& d : s.dimensions) middle.push_back(d.least + (d.most - d.least) / 2);
  std::vector<bytes>& least = points.emplace_back();
  for (const dimension& d : s.dimensions) least.push_back(d.least);

  symbolic_plan best;
  plan at_largest;
  problem largest;
  std::vector<bytes> best_arenas, arenas(points.size()), offsets(p.buffers.size());
  std::uint64_t work = 0;
  for (const auto& point : points) {
    auto there = at_values(p, s, point);
    if (!there) return there.error();
    there->capacity.reset();
    auto solved = solve(*there, o);
    if (!solved) return solved.error();
    work += solved->work;
    // Sums too large for the solver at one point are no reason to refuse: the other points' orders serve.
    if (!solved->has_offsets()) solved->offsets.assign(p.buffers.size(), 0);
    std::vector<index> order(p.buffers.size());
    std::iota(order.begin(), order.end(), index{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](index a, index b) { return solved->offset(a) < solved->offset(b); });
    if (best_arenas.empty()) {
      largest = std::move(*there);
      at_largest = *solved;
    }
    at_largest.deadline_hit |= solved->deadline_hit;
    symbolic_plan candidate = supports_of(largest, std::move(order));
    for (std::size_t k = 0; k < points.size(); ++k) arenas[k] = *evaluate(p, s, candidate, points[k], offsets);
    if (!best_arenas.empty() && arenas >= best_arenas) continue;
    best = std::move(candidate);
    best_arenas = arenas;
    at_largest.solver = solved->solver;
  }
  best.most = std::move(at_largest);
  best.most.offsets.resize(p.buffers.size());
  best.most.arena_bytes = *evaluate(p, s, best, points[0], best.most.offsets);
  best.most.status = best.most.arena_bytes == best.most.lower_bound_bytes ? status::optimal : status::feasible;
  best.most.work = work;
  if (const auto broken = verify(p, s, best)) expects(false, broken->rule);
  if (const auto broken = verify(largest, best.most)) expects(false, broken->rule);
  return best;
}

result<bytes> evaluate(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan,
                       std::span<const bytes> values, std::span<bytes> offsets) {
  if (auto ok = check_values(s, values); !ok) return ok.error();
  if (offsets.size() != p.buffers.size()) return error{errc::invalid_input, "problem: not one offset a buffer"};
  const auto end_of = [&](index i) {
    return offsets[i] + align_up(size_at(s.of[i], values), p.granularity) + p.tail_pad;
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

}  // namespace berth::plan
