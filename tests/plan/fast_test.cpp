// Effort fast beside simple greedy planners, and the stages that it and large problems are made of.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/bound/bounds.hpp"
#include "plan/dense_set.hpp"
#include "plan/generate.hpp"
#include "plan/greedy/cuts.hpp"
#include "plan/greedy/first_fit.hpp"
#include "plan/greedy/outward.hpp"

namespace berth::plan {
namespace {

std::vector<interval> lives(const buffer& b) {
  return b.lifetimes.empty() ? std::vector<interval>{b.live} : b.lifetimes;
}

tick length(const buffer& b) {
  tick sum = 0;
  for (const interval& t : lives(b)) sum += t.upper - t.lower;
  return sum;
}

// By pairs of buffers: whether they may not share bytes.
class conflicts_of {
 public:
  explicit conflicts_of(const problem& p) : p_{p}, n_{p.buffers.size()}, pairs_(n_ * n_, 0) {
    for (index i = 0; i < n_; ++i) {
      for (index j = 0; j < i; ++j) {
        const auto& g = p.buffers[i].alias_group;
        if (g && g == p.buffers[j].alias_group) continue;
        if (!p.conflicts && meet(i, j)) add(i, j);
      }
    }
    if (p.conflicts) {
      for (const pair& c : *p.conflicts) add(c.a, c.b);
    }
    for (const pair& c : p.separations) add(c.a, c.b);
  }
  [[nodiscard]] bool operator()(index i, index j) const { return pairs_[i * n_ + j] != 0; }
  [[nodiscard]] std::size_t degree(index i) const {
    return static_cast<std::size_t>(std::count(pairs_.begin() + static_cast<std::ptrdiff_t>(i * n_),
                                               pairs_.begin() + static_cast<std::ptrdiff_t>((i + 1) * n_), 1));
  }

 private:
  [[nodiscard]] bool meet(index i, index j) const {
    for (const interval& a : lives(p_.buffers[i])) {
      for (const interval& b : lives(p_.buffers[j])) {
        if (a.lower < b.upper && b.lower < a.upper) return true;
      }
    }
    return false;
  }
  void add(index i, index j) { pairs_[i * n_ + j] = pairs_[j * n_ + i] = 1; }

  const problem& p_;
  std::size_t n_;
  std::vector<char> pairs_;
};

// First fit of groups (of one buffer, mostly) in an order: the lowest offset that is free for all members.
bytes first_fit_arena(const problem& p, const conflicts_of& meet, const std::vector<std::vector<index>>& groups) {
  std::vector<std::optional<bytes>> at(p.buffers.size());
  bytes arena = 0;
  for (const std::vector<index>& group : groups) {
    bytes alignment = 1, size = 0;
    std::vector<std::pair<bytes, bytes>> blocked;  // [first, end) of forbidden offsets, first counted up by max size
    for (const index i : group) {
      alignment = std::lcm(alignment, p.alignment_of(i));
      size = std::max(size, p.footprint(i));
      for (index j = 0; j < p.buffers.size(); ++j) {
        if (!at[j] || !meet(i, j)) continue;
        const bytes own = p.footprint(i);
        blocked.emplace_back(*at[j] + 1 > own ? *at[j] + 1 - own : 0, *at[j] + p.footprint(j));
      }
    }
    std::sort(blocked.begin(), blocked.end());
    bytes offset = 0;
    for (const auto& [first, end] : blocked) {
      if (first > offset) break;
      if (end > offset) offset = align_up(end, alignment);
    }
    for (const index i : group) at[i] = offset;
    arena = std::max(arena, offset + size);
  }
  return arena;
}

// The best of first fit by size, by area, by birth and by number of conflicts.
bytes best_of_greedy(const problem& p) {
  const conflicts_of meet{p};
  std::vector<std::vector<index>> groups;
  std::vector<std::size_t> group_at(p.buffers.size(), p.buffers.size());
  for (index i = 0; i < p.buffers.size(); ++i) {
    const auto& g = p.buffers[i].alias_group;
    if (g && group_at[*g] != p.buffers.size()) {
      groups[group_at[*g]].push_back(i);
      continue;
    }
    if (g) group_at[*g] = groups.size();
    groups.push_back({i});
  }
  const auto sum = [&](const std::vector<index>& group, auto of) {
    double out = 0;
    for (const index i : group) out += static_cast<double>(of(i));
    return out;
  };
  const auto size = [&](const std::vector<index>& g) {
    bytes most = 0;
    for (const index i : g) most = std::max(most, p.footprint(i));
    return static_cast<double>(most);
  };
  const auto life = [&](const std::vector<index>& g) {
    return p.conflicts ? sum(g, [&](index i) { return meet.degree(i); })
                       : sum(g, [&](index i) { return length(p.buffers[i]); });
  };
  const auto degree = [&](const std::vector<index>& g) { return sum(g, [&](index i) { return meet.degree(i); }); };
  using key = std::function<std::pair<double, double>(const std::vector<index>&)>;
  const std::vector<key> keys{[&](const auto& g) {
                                return std::pair{-size(g), -life(g)};
                              },
                              [&](const auto& g) {
                                return std::pair{-size(g) * life(g), -size(g)};
                              },
                              [&](const auto& g) {
                                return std::pair{static_cast<double>(g.front()), 0.0};
                              },
                              [&](const auto& g) {
                                return std::pair{-degree(g), -size(g)};
                              }};
  bytes best = max_bytes;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (p.conflicts && k == 2) continue;  // the caller's order is no birth there
    auto sorted = groups;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const auto& a, const auto& b) { return keys[k](a) < keys[k](b); });
    best = std::min(best, first_fit_arena(p, meet, sorted));
  }
  return best;
}

bytes some_size(numbers& from) {
  return 64 * (1 + from.below(16'384));
}

problem network(std::uint64_t seed, std::uint32_t n) {
  numbers from{seed};
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto at = static_cast<tick>(i);
    const auto life = static_cast<tick>(from.below(10) != 0 ? 1 + from.below(3) : 1 + from.below(40));
    p.add({.size = some_size(from), .live = {at, at + 1 + life}});
  }
  return p;
}

problem chain(std::uint64_t seed, std::uint32_t n) {
  numbers from{seed};
  problem p;
  const bytes width = some_size(from);
  for (tick t = 0; p.buffers.size() < n; t += 8) {
    p.add({.size = 4 * width, .live = {t, t + 9}});
    for (tick k = 0; k < 3; ++k) p.add({.size = width * (1 + from.below(8)), .live = {t + 1 + k, t + 4 + k}});
    p.add({.size = width * (8 + from.below(9)), .live = {t + 4, t + 6}});
    p.add({.size = width * (4 + from.below(5)), .live = {t + 5, t + 7}});
  }
  return p;
}

problem grouped(std::uint64_t seed, std::uint32_t n) {
  numbers from{seed};
  problem p = network(seed, n);
  for (index i = 0; i < n; ++i) {
    if (from.below(2) == 0) p.buffers[i].alias_group = static_cast<index>(from.below(n / 3));
  }
  return p;
}

problem gapped(std::uint64_t seed, std::uint32_t n) {
  numbers from{seed};
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    buffer b{.size = some_size(from)};
    auto t = static_cast<tick>(i);
    for (std::uint64_t k = 1 + from.below(5); k > 0; --k) {
      const tick end = t + 1 + static_cast<tick>(from.below(12));
      b.lifetimes.push_back({t, end});
      t = end + 1 + static_cast<tick>(from.below(20));
    }
    p.add(b);
  }
  return p;
}

// Two buffers conflict unless one ends before the other begins on the same lane, or before a hand-over to its lane.
problem on_lanes(std::uint64_t seed, std::uint32_t n, std::uint32_t lanes) {
  numbers from{seed};
  problem p;
  p.conflicts.emplace();
  std::vector<std::uint32_t> lane(n), end(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    p.add({.size = some_size(from)});
    lane[i] = static_cast<std::uint32_t>(from.below(lanes));
    end[i] = i + 1 + static_cast<std::uint32_t>(from.below(30));
    for (std::uint32_t j = 0; j < i; ++j) {
      const bool ordered = lane[i] == lane[j] ? end[j] <= i : end[j] + 40 <= i;
      if (!ordered) p.conflicts->push_back({j, i});
    }
  }
  return p;
}

std::optional<violation> check(const problem& p, const instance& in, const layout& of) {
  plan as_plan{.arena_bytes = static_cast<bytes>(of.arena) * in.unit, .status = status::feasible};
  for (const std::uint32_t i : in.item_of) {
    as_plan.offsets.push_back(i == no_item ? 0 : static_cast<bytes>(of.offsets[i]) * in.unit);
  }
  return verify(p, as_plan);
}

}  // namespace

TEST(fast, is_never_above_simple_greedy_planners) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto n = static_cast<std::uint32_t>(20 + 17 * seed);
    const std::pair<const char*, problem> all[] = {{"network", network(seed, n)},
                                                   {"chain", chain(seed, n)},
                                                   {"groups", grouped(seed, n)},
                                                   {"gaps", gapped(seed, n)},
                                                   {"lanes", on_lanes(seed, n, 3)}};
    for (const auto& [name, p] : all) {
      // Ticks between sections are not known exactly for several lifetimes each: orders differ a little.
      const bytes greedy = best_of_greedy(p), slack = p.buffers[0].lifetimes.empty() ? 0 : greedy / 50;
      EXPECT_LE(solve(p, {.work = effort::fast})->arena(), greedy + slack) << name << " seed " << seed;
    }
  }
}

// Buffers that differ much in alignment are not always best placed in order of it.
TEST(fast, is_never_above_a_greedy_planner_that_ignores_alignment) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    problem p = network(seed, 120);
    numbers from{seed};
    for (buffer& b : p.buffers) b.alignment = bytes{1} << from.below(16);
    EXPECT_LE(solve(p, {.work = effort::fast})->arena(), best_of_greedy(p)) << "seed " << seed;
  }
}

// By neighbours, and by a list where lifetimes are plain: both find the lowest free offset.
RC_GTEST_PROP(first_fit, agrees_with_passes_by_occupancy, ()) {
  auto made = generate::random_problem({.most_buffers = 14, .pins = false});
  RC_PRE(made.has_value());
  for (buffer& b : made->buffers) b.hint.reset();
  const instance in = make_instance(*made);
  RC_PRE(in.representable);
  first_fit by{in};
  occupancy taken{in};
  for (const order o : {order::size, order::area, order::birth, order::degree}) {
    const auto items = sorted_items(in, o);
    RC_ASSERT(by.run(items).offsets == place_in_order(in, taken, items).offsets);
  }
}

RC_GTEST_PROP(outward, gives_a_plan_that_is_lower_or_the_same, ()) {
  numbers from{*rc::gen::arbitrary<std::uint64_t>()};
  problem p;
  const auto n = 2 + from.below(300);
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto lower = static_cast<tick>(from.below(n));
    p.add({.size = 1 + from.below(100), .live = {lower, lower + 1 + static_cast<tick>(from.below(30))}});
    if (from.below(4) == 0) p.buffers.back().alignment = 1 + from.below(6);
  }
  const instance in = make_instance(p);
  RC_PRE(has_lifetimes_only(in));
  layout got;
  RC_ASSERT(lower_outwards(in, got, 0, 40'000, {}));
  RC_ASSERT(!check(p, in, got));
  RC_ASSERT(got.arena == arena_of(in, got.offsets));
  layout again;
  lower_outwards(in, again, 0, 40'000, {});
  RC_ASSERT(again.offsets == got.offsets);
  const layout before = got;
  lower_outwards(in, got, 0, 80'000, {});
  RC_ASSERT(got.arena < before.arena || got.offsets == before.offsets);
}

TEST(outward, needs_less_than_sweeps_where_hundreds_are_alive) {
  const problem p = dense_set(2000, 150);
  const instance in = make_instance(p);
  layout one, many;
  lower_outwards(in, one, section_bound(in), 0, {});
  lower_outwards(in, many, section_bound(in), 4'000'000, {});
  EXPECT_LE(one.arena, section_bound(in) / 100 * 108);
  EXPECT_LE(many.arena, section_bound(in) / 100 * 104);
}

RC_GTEST_PROP(cuts, give_a_plan_that_is_lower_or_the_same, ()) {
  numbers from{*rc::gen::arbitrary<std::uint64_t>()};
  problem p;
  const auto n = 2 + from.below(40);
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto lower = static_cast<tick>(from.below(20));
    p.add({.size = 1 + from.below(30), .live = {lower, lower + 1 + static_cast<tick>(from.below(9))}});
  }
  const instance in = make_instance(p);
  RC_PRE(!in.items.empty());
  first_fit by{in};
  layout got = by.run(sorted_items(in, order::birth));
  const layout before = got;
  lower_by_cuts(in, got, section_bound(in), 60'000, {});
  RC_ASSERT(!check(p, in, got));
  RC_ASSERT(got.arena == arena_of(in, got.offsets));
  RC_ASSERT(got.arena <= before.arena);
  RC_ASSERT(got.arena >= section_bound(in));
}

// First fit ends a third above the bound here.
TEST(cuts, fill_a_tiling_without_slack) {
  numbers from{3};
  struct cell {
    tick t0, t1;
    bytes y0, y1;
  };
  std::vector<cell> cells{{0, 60, 0, 512}};
  while (cells.size() < 60) {
    const auto at = std::max_element(cells.begin(), cells.end(), [](const cell& a, const cell& b) {
      return static_cast<bytes>(a.t1 - a.t0) * (a.y1 - a.y0) < static_cast<bytes>(b.t1 - b.t0) * (b.y1 - b.y0);
    });
    cell other = *at;
    if (at->t1 - at->t0 > 1 && from.below(2) == 0) {
      at->t1 = other.t0 = at->t0 + 1 + static_cast<tick>(from.below(static_cast<std::uint64_t>(at->t1 - at->t0 - 1)));
    } else {
      at->y1 = other.y0 = at->y0 + 1 + from.below(at->y1 - at->y0 - 1);
    }
    cells.push_back(other);
  }
  problem p;
  for (const cell& c : cells) p.add({.size = c.y1 - c.y0, .live = {c.t0, c.t1}});
  const instance in = make_instance(p);
  first_fit by{in};
  layout got = by.run(sorted_items(in, order::size));
  EXPECT_GT(got.arena, section_bound(in) / 10 * 11);
  lower_by_cuts(in, got, section_bound(in), 20'000'000, {});
  EXPECT_EQ(got.arena, section_bound(in));
}

}  // namespace berth::plan
