// What large instances are placed with: boxes of small items, and the items of tall sections first.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/bounds.hpp"
#include "plan/greedy/boxes.hpp"
#include "plan/greedy/tall_first.hpp"

namespace berth::plan {
namespace {

// Many short lives, some long ones; sizes over three orders of magnitude, so that some tick is tall beside the others.
problem long_stretch(std::uint32_t seed, std::uint32_t buffers) {
  std::mt19937 random(seed);
  problem p;
  for (std::uint32_t i = 0; i < buffers; ++i) {
    const auto lower = static_cast<tick>(random() % buffers);
    const auto life = static_cast<tick>(1 + random() % (random() % 10 == 0 ? buffers / 10 + 1 : 12));
    const bytes size = 16 * (bytes{1} << random() % 10) * (1 + random() % 3);
    p.add({.size = size * (i % 10'000 == 0 ? 100 : 1), .live = {lower, lower + life}});
  }
  return p;
}

std::optional<violation> check(const problem& p, const instance& in, const std::vector<units>& offsets) {
  plan as_plan;
  as_plan.offsets.assign(p.buffers.size(), 0);
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (in.item_of[i] == no_item) continue;
    as_plan.offsets[i] = static_cast<bytes>(offsets[in.item_of[i]]) * in.unit;
    as_plan.arena_bytes = std::max(as_plan.arena_bytes, as_plan.offsets[i] + p.footprint(i));
  }
  as_plan.status = status::feasible;
  return verify(p, as_plan);
}

}  // namespace

// Whatever the target: a low one makes no boxes, a high one boxes of boxes.
RC_GTEST_PROP(boxes, a_plan_of_the_coarse_instance_is_one_of_the_fine_one, ()) {
  problem p = long_stretch(*rc::gen::arbitrary<std::uint32_t>(), *rc::gen::inRange(200U, 3000U));
  for (buffer& b : p.buffers) {
    if (*rc::gen::inRange(0, 50) == 0) b.alignment = 96;
    if (*rc::gen::inRange(0, 500) == 0) b.lifetimes = {b.live, {b.live.upper + 3, b.live.upper + 9}};
  }
  const instance in = make_instance(p);
  const units target = section_bound(in) * *rc::gen::inRange<units>(1, 40) + 1000;
  const auto boxes = put_in_boxes(in, target);
  RC_PRE(boxes.has_value());
  RC_ASSERT(boxes->coarse.items.size() <= in.items.size() / 2);
  occupancy taken{boxes->coarse};
  for (const order by : {order::breadth, order::size, order::start}) {
    const layout got = place_in_order(boxes->coarse, taken, sorted_items(boxes->coarse, by), fit::first);
    RC_ASSERT(!check(p, in, take_out_of_boxes(*boxes, got.offsets)));
  }
  // What a box adds never makes a section that was low a tall one.
  RC_ASSERT(section_bound(boxes->coarse) <= std::max(section_bound(in), target / 4 * 3));
}

TEST(boxes, items_that_may_not_move_in_a_box_keep_an_item_of_their_own) {
  problem p = long_stretch(3, 2000);
  p.buffers[5].offset = 16;
  p.buffers[6].hint = 32;
  p.buffers[7].alignment = 4096;
  const instance in = make_instance(p);
  const units target = section_bound(in) * 20;
  const auto boxes = put_in_boxes(in, target);
  ASSERT_TRUE(boxes);
  for (const index i : {5U, 6U, 7U}) {
    const item& own = boxes->coarse.items[boxes->places[in.item_of[i]].item];
    EXPECT_EQ(own.size, in.items[in.item_of[i]].size);
    EXPECT_EQ(boxes->places[in.item_of[i]].within, 0);
  }
  EXPECT_EQ(boxes->coarse.items[boxes->places[in.item_of[5]].item].pin, 16 / static_cast<units>(in.unit));
  EXPECT_EQ(boxes->coarse.items[boxes->places[in.item_of[7]].item].alignment, 4096 / static_cast<units>(in.unit));
}

TEST(boxes, none_where_conflicts_are_more_than_lifetimes) {
  problem p = long_stretch(3, 2000);
  p.separations.push_back({1, 2});
  const instance in = make_instance(p);
  EXPECT_FALSE(put_in_boxes(in, section_bound(in) * 20));
}

RC_GTEST_PROP(tall_first, gives_a_plan, ()) {
  problem p = long_stretch(*rc::gen::arbitrary<std::uint32_t>(), *rc::gen::inRange(1U, 400U));
  for (buffer& b : p.buffers) {
    if (*rc::gen::inRange(0, 10) == 0) b.alignment = *rc::gen::element<bytes>(16, 32, 64);
  }
  // A pin beyond all else cannot clash.
  p.buffers[0].offset = 1 << 26;
  const instance in = make_instance(p);
  const units target = *rc::gen::inRange<units>(1, section_bound(in) * 8);
  const auto got = tall_first(in, target);
  RC_PRE(got.has_value());
  RC_ASSERT(!check(p, in, got->offsets));
  RC_ASSERT(got->arena == arena_of(in, got->offsets));
}

// What is left for last and ends too high comes first in the next try, and is not lost on the way.
TEST(tall_first, places_what_ends_above_the_target) {
  problem p;
  p.add({.size = 10, .live = {0, 1}, .offset = 40});
  p.add({.size = 60, .live = {0, 1}});  // only above the pin, at 50
  p.add({.size = 100, .live = {2, 3}});
  p.add({.size = 1, .live = {4, 5}});
  p.add({.size = 1, .live = {6, 7}});
  const instance in = make_instance(p);
  const auto got = tall_first(in, 100 / static_cast<units>(in.unit));
  ASSERT_TRUE(got);
  EXPECT_EQ(check(p, in, got->offsets), std::nullopt);
  EXPECT_EQ(got->arena, 110 / static_cast<units>(in.unit));
}

// Of 30,000 buffers: every seed within a thousandth of the bound, and the same on every run.
TEST(large, ends_near_the_bound) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    const problem p = long_stretch(seed, 30'000);
    const plan got = *solve(p);
    EXPECT_LE(got.arena() - got.lower_bound(), got.lower_bound() / 1024) << seed;
    EXPECT_EQ(solve(p)->offsets, got.offsets) << seed;
  }
}

}  // namespace berth::plan
