// The statements of a text on IREE's memory allocation, one case each. It plans while a program is compiled, and cuts
// up a block by offsets when it runs. The comment before a case is the statement's meaning.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "berth/graph/arena.hpp"
#include "berth/graph/liveness.hpp"
#include "berth/plan/solve.hpp"
#include "berth/pool/pool.hpp"
#include "berth/rules/placement.hpp"

namespace berth {
namespace {

const tensor_type floats{.shape = {1024}};
constexpr bytes each = 4096;

// a -> b -> c -> d -> e, each read by the next one alone.
struct chain {
  graph g;
  std::vector<value_id> values;
  explicit chain(std::size_t nodes = 4) {
    values.push_back(g.input("a", floats));
    for (std::size_t i = 0; i < nodes; ++i) values.push_back(g.node("n" + std::to_string(i), {values.back()}, floats));
    g.output(values.back());
  }
};

// --- 1 Planning while compiling

// "Liveness: each buffer has an interval from its first use to its last, as registers have in a compiler."
TEST(iree_allocation, buffers_live_from_their_first_use_to_their_last) {
  const chain c;
  const liveness found = find_lifetimes(c.g.structure(), rules::host(), reuse::none);
  const auto of = [&](std::size_t i) { return found.problem.buffers[found.buffer_of[c.values[i].index]].live; };
  for (std::size_t i = 1; i + 1 < c.values.size(); ++i) {
    EXPECT_EQ(of(i).lower, static_cast<plan::tick>(i)) << i;      // node i - 1 runs at tick i
    EXPECT_EQ(of(i).upper, static_cast<plan::tick>(i + 2)) << i;  // the next node is its last reader
  }
}

// "Buffers whose lives do not overlap lie in one contiguous region": a chain needs two buffers, however long it is.
TEST(iree_allocation, buffers_that_never_live_together_share_memory) {
  for (const std::size_t nodes : {2, 10, 200}) {
    const chain c{nodes};
    const liveness found = find_lifetimes(c.g.structure(), rules::host(), reuse::none);
    for (const plan::effort how : {plan::effort::fast, plan::effort::normal}) {
      const plan::plan placed = plan::solve(found.problem, {.work = how}).value();
      EXPECT_EQ(placed.arena(), 2 * each) << nodes;
    }
  }
}

// "Linear scan or greedy": the fast pass walks over time as a linear scan does. It never places buffers that live
// together over each other.
TEST(iree_allocation, linear_scan_keeps_what_lives_together_apart) {
  plan::problem p;
  for (plan::tick i = 0; i < 200; ++i) {
    p.add({.size = static_cast<bytes>(64 + i * 37 % 4000), .live = {i, i + 1 + i * 7 % 13}});
  }
  const plan::plan placed = plan::solve(p, {.work = plan::effort::fast}).value();
  for (plan::index a = 0; a < p.buffers.size(); ++a) {
    for (plan::index b = 0; b < a; ++b) {
      const auto &x = p.buffers[a], &y = p.buffers[b];
      const bool together = x.live.lower < y.live.upper && y.live.lower < x.live.upper;
      const bool over =
          placed.offsets[a] < placed.offsets[b] + y.size && placed.offsets[b] < placed.offsets[a] + x.size;
      EXPECT_FALSE(together && over) << a << " " << b;
    }
  }
}

// "Reuse as much as possible, which lowers the total", and "control fragmentation". The arena is the most bytes that
// are alive at once, with no gap, if the planner proves it.
TEST(iree_allocation, total_is_far_below_the_sum_and_meets_the_bound) {
  const chain c{50};
  const liveness found = find_lifetimes(c.g.structure(), rules::host(), reuse::none);
  bytes sum = 0;
  for (const plan::buffer& b : found.problem.buffers) sum += b.size;
  const plan::plan placed = plan::solve(found.problem).value();
  EXPECT_EQ(placed.arena(), placed.lower_bound());
  EXPECT_LT(placed.arena() * 20, sum);
}

// "Constraints of the hardware: alignment". Each offset is a multiple of the target's, and parts keep its distance.
TEST(iree_allocation, offsets_satisfy_the_alignment_of_the_target) {
  for (const rules::placement& target : rules::all()) {
    plan::problem p{target};
    for (plan::tick i = 0; i < 50; ++i) p.add({.size = static_cast<bytes>(1 + i * 91), .live = {i, i + 3}});
    const plan::plan placed = plan::solve(p).value();
    for (const bytes at : placed.offsets) EXPECT_EQ(at % target.start_alignment, 0u) << target.name;
  }
}

// "... cache policy and layout of the data": buffers can be kept out of common addresses, and held at places.
TEST(iree_allocation, layout_can_be_constrained) {
  plan::problem p;
  const auto a = p.add({.size = 100, .live = {0, 1}}), b = p.add({.size = 100, .live = {1, 2}});
  const auto pinned = p.add({.size = 100, .live = {0, 2}, .offset = 1000});
  p.separations.push_back({a, b});
  const plan::plan placed = plan::solve(p).value();
  EXPECT_EQ(placed.offsets[pinned], 1000u);
  EXPECT_TRUE(placed.offsets[a] + 100 <= placed.offsets[b] || placed.offsets[b] + 100 <= placed.offsets[a]);
}

// --- 2 Cutting up memory while running

// "One large contiguous block is allocated before, and cut up": every value lies inside one block, which is one
// allocation of the pool.
TEST(iree_allocation, one_block_holds_every_value) {
  stream s{device::host()};
  pool memory{device::host()};
  const chain c{20};
  const arena placed = arena::reserve(c.g, memory, s).value();
  EXPECT_EQ(memory.statistics().allocations, 1u);
  std::set<const void*> places;
  const auto* base = static_cast<const std::byte*>(placed.address(c.values[0]));
  for (const value_id v : c.values) base = std::min(base, static_cast<const std::byte*>(placed.address(v)));
  for (const value_id v : c.values) {
    const auto* at = static_cast<const std::byte*>(placed.address(v));
    EXPECT_LE(at - base + static_cast<std::ptrdiff_t>(each), static_cast<std::ptrdiff_t>(placed.get_plan().arena()));
    places.insert(at);
  }
  EXPECT_LT(places.size(), c.values.size());
}

// "Offsets that were computed before map each buffer directly, which avoids dynamic allocation": later runs ask the
// pool for nothing.
TEST(iree_allocation, later_runs_allocate_nothing) {
  stream s{device::host()};
  pool memory{device::host()};
  const chain c{20};
  arena placed = arena::reserve(c.g, memory, s).value();
  std::vector<const void*> first;
  for (const value_id v : c.values) first.push_back(placed.address(v));
  const auto before = memory.statistics().allocations;
  for (int run = 0; run < 100; ++run) {
    ASSERT_EQ(placed.bind(c.g).value(), bind_outcome::unchanged);
    for (std::size_t i = 0; i < c.values.size(); ++i) ASSERT_EQ(placed.address(c.values[i]), first[i]);
  }
  EXPECT_EQ(memory.statistics().allocations, before);
}

// "Release and reuse need no logic of their own: lives are known". The values of a run reuse memory while it runs, and
// the pool gets no free until the arena ends.
TEST(iree_allocation, nothing_is_released_before_the_arena_ends) {
  stream s{device::host()};
  pool memory{device::host()};
  {
    const chain c{20};
    arena placed = arena::reserve(c.g, memory, s).value();
    ASSERT_EQ(placed.bind(c.g).value(), bind_outcome::unchanged);
    EXPECT_EQ(memory.statistics().frees, 0u);
  }
  EXPECT_EQ(memory.statistics().frees, 1u);
}

}  // namespace
}  // namespace berth
