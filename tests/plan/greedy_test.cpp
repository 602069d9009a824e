#include "plan/greedy.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "berth/plan/bound.hpp"
#include "berth/plan/verify.hpp"
#include "plan/bounds.hpp"
#include "plan/single.hpp"
#include "plan/sweep.hpp"

namespace berth::plan {
namespace {

bool alive_together(const buffer& a, const buffer& b) {
  return a.live.lower < b.live.upper && b.live.lower < a.live.upper;
}

problem random_problem(std::uint32_t most) {
  problem p;
  const auto n = *rc::gen::inRange(1U, most);
  for (std::uint32_t i = 0; i < n; ++i) {
    const tick lower = *rc::gen::inRange(0, 20);
    p.add({.size = *rc::gen::inRange<bytes>(0, 30),
           .live = {lower, lower + *rc::gen::inRange(1, 10)},
           .alignment = *rc::gen::element<bytes>(0, 1, 2, 4, 6)});
  }
  return p;
}

}  // namespace

RC_GTEST_PROP(greedy, every_order_gives_a_plan, ()) {
  const problem p = random_problem(40);
  const instance in = make_instance(p);
  occupancy taken{in};
  for (const order by : {order::size, order::area, order::lifetime, order::breadth, order::start}) {
    for (const fit how : {fit::first, fit::best}) {
      const layout got = place_in_order(in, taken, sorted_items(in, by), how);
      for (index i = 0; i < p.buffers.size(); ++i) {
        if (in.item_of[i] == no_item) continue;
        const bytes at = static_cast<bytes>(got.offsets[in.item_of[i]]) * in.unit;
        RC_ASSERT(is_aligned(at, std::max<bytes>(p.buffers[i].alignment, 1)));
        for (index j = 0; j < i; ++j) {
          if (in.item_of[j] == no_item || !alive_together(p.buffers[i], p.buffers[j])) continue;
          const bytes other = static_cast<bytes>(got.offsets[in.item_of[j]]) * in.unit;
          const bool apart = at >= other + p.buffers[j].size || other >= at + p.buffers[i].size;
          RC_ASSERT(apart);
        }
      }
      RC_ASSERT(got.arena >= section_bound(in));
    }
  }
}

// The first fit of the tree against a scan of all placed items.
RC_GTEST_PROP(greedy, first_fit_is_the_lowest_free_offset, ()) {
  const problem p = random_problem(40);
  const instance in = make_instance(p);
  occupancy taken{in};
  std::vector<units> offsets(in.items.size(), no_offset);
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    const auto free_at = [&](units x) {
      for (std::uint32_t j = 0; j < i; ++j) {
        const section_range a = in.ranges_of(in.items[i])[0];
        const section_range b = in.ranges_of(in.items[j])[0];
        if (a.first < b.last && b.first < a.last && x < offsets[j] + b.height && offsets[j] < x + a.height)
          return false;
      }
      return true;
    };
    units expected = 0;
    while (!free_at(expected)) expected += in.items[i].alignment;
    RC_ASSERT(taken.find(i, fit::first) == expected);
    RC_ASSERT(taken.is_free(i, expected));
    RC_ASSERT(free_at(taken.find(i, fit::best)));
    offsets[i] = expected;
    taken.insert(i, expected);
  }
}

RC_GTEST_PROP(sweep, gives_a_plan_and_the_live_bytes, ()) {
  problem p = random_problem(60);
  p.granularity = *rc::gen::element<bytes>(1, 4);
  const auto got = sweep(p);
  RC_PRE(got.has_value());
  plan as_plan;
  as_plan.offsets = got->offsets;
  as_plan.arena_bytes = got->arena;
  as_plan.status = status::feasible;
  RC_ASSERT(!verify(p, as_plan));
  RC_ASSERT(got->most_live == max_live(p));
}

TEST(sweep, reuses_what_has_died_and_joins_its_neighbours) {
  problem p;
  p.add({.size = 10, .live = {0, 1}});
  p.add({.size = 20, .live = {0, 1}});
  p.add({.size = 30, .live = {1, 3}});
  p.add({.size = 5, .live = {2, 3}});
  const auto got = sweep(p);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->offsets, (std::vector<bytes>{0, 10, 0, 30}));
  EXPECT_EQ(got->arena, 35U);
  EXPECT_EQ(got->most_live, 35U);
  EXPECT_EQ(got->most_live_at, 2);
}

TEST(sweep, leaves_what_it_does_not_know_to_others) {
  problem p;
  p.add({.size = 10, .live = {0, 1}, .offset = 0});
  EXPECT_FALSE(sweep(p));
  p.buffers[0] = {.size = 10, .live = {0, 1'000'000'000}};
  EXPECT_FALSE(sweep(p));
}

}  // namespace berth::plan
