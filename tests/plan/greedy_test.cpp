#include "plan/greedy/greedy.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "berth/plan/bound.hpp"
#include "berth/plan/verify.hpp"
#include "plan/bound/bounds.hpp"
#include "plan/greedy/sweep.hpp"
#include "plan/single/single.hpp"

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
  for (const order by : {order::breadth, order::size, order::birth, order::death, order::area}) {
    const layout got = place_in_order(in, taken, sorted_items(in, by));
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
    RC_ASSERT(taken.find(i) == expected);
    RC_ASSERT(taken.is_free(i, expected));
    offsets[i] = expected;
    taken.insert(i, expected);
  }
}

RC_GTEST_PROP(sweep, gives_a_plan_and_a_bound_that_can_be_checked, ()) {
  problem p = random_problem(60);
  p.granularity = *rc::gen::element<bytes>(1, 4);
  const auto stretch = *rc::gen::element<tick>(1, 1000);  // to sparse ticks
  for (buffer& b : p.buffers) b.live = {b.live.lower * stretch - 500, b.live.upper * stretch - 500};
  const auto got = sweep(p);
  RC_PRE(got.has_value());
  plan as_plan;
  as_plan.offsets = got->offsets;
  as_plan.arena_bytes = got->arena;
  as_plan.lower_bound_bytes = got->why.bound;
  as_plan.status = status::feasible;
  RC_ASSERT(!verify(p, as_plan));
  RC_ASSERT(!verify_bound(p, got->why.bound, {got->why}));
  const bool aligned = std::all_of(p.buffers.begin(), p.buffers.end(), [&](const buffer& b) {
    return is_aligned(p.footprint(static_cast<index>(&b - p.buffers.data())), got->why.step);
  });
  if (aligned) RC_ASSERT(got->why.bound == max_live(p));
}

TEST(sweep, stacks_the_peak_and_puts_what_lives_at_the_next_one_at_the_high_end) {
  problem p;
  p.add({.size = 30, .live = {0, 9}});
  // Two layers: a short buffer, which is dead at the peak, before a large one and one that waits for it.
  for (const tick t : {0, 4}) {
    p.add({.size = 10, .live = {t, t + 2}});
    p.add({.size = 20, .live = {t + 1, t + 4}});
    p.add({.size = 50, .live = {t + 2, t + 3}});
  }
  const auto got = sweep(p);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->arena, 100U);
  EXPECT_EQ(got->why.bound, 100U);
  EXPECT_EQ(got->why.at, 2);
  // From the first peak: 30 | 20 | 50. At tick 5 the second 20 goes above everything, so that 50 bytes stay together.
  EXPECT_EQ(got->offsets, (std::vector<bytes>{0, 50, 30, 50, 30, 80, 30}));
}

TEST(sweep, one_that_is_not_rounded_lies_highest) {
  problem p;
  p.alignment = 64;
  p.add({.size = 4, .live = {0, 9}});
  p.add({.size = 64, .live = {0, 5}});
  p.add({.size = 60, .live = {4, 9}});
  const auto got = sweep(p);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->why.step, 64U);
  EXPECT_EQ(got->why.bound, 132U);
  EXPECT_EQ(got->arena, 132U);
}

TEST(sweep, leaves_what_it_does_not_know_to_others) {
  problem p;
  p.add({.size = 10, .live = {0, 1}, .offset = 0});
  EXPECT_FALSE(sweep(p));
  p.buffers[0] = {.size = 10, .live = {0, 1}, .alias_group = 0};
  EXPECT_FALSE(sweep(p));
}

}  // namespace berth::plan
