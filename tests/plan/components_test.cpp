#include "plan/single/components.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "berth/plan/solve.hpp"
#include "plan/dense_set.hpp"
#include "plan/generate.hpp"

namespace berth::plan {
namespace {

// After all of `before`, a tick or so later.
void append(problem& before, const problem& after) {
  tick end = 0;
  for (const buffer& b : before.buffers) end = std::max(end, b.live.upper);
  for (buffer b : after.buffers) {
    b.live = {b.live.lower + end, b.live.upper + end};
    before.add(std::move(b));
  }
}

problem in_pieces_of(problem p, bytes unit) {
  for (buffer& b : p.buffers) b.size = align_up(b.size, unit);
  return p;
}

TEST(components, are_what_no_item_lives_across) {
  problem p;
  p.add({.size = 64, .live = {0, 4}});
  p.add({.size = 128, .live = {3, 6}});
  p.add({.size = 3, .live = {6, 8}});
  p.add({.size = 5, .live = {7, 9}});
  p.add({.size = 10, .lifetimes = {{10, 11}, {13, 14}}});
  p.add({.size = 20, .live = {11, 12}});
  const auto parts = components_of(make_instance(p));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].items, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(parts[1].items, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(parts[2].items, (std::vector<std::uint32_t>{4, 5}));
  EXPECT_EQ(parts[0].scale, 64);  // units of their own
  EXPECT_EQ(parts[1].scale, 1);
  EXPECT_EQ(parts[2].scale, 10);
  EXPECT_EQ(parts[0].in.items[1].size, 2);
}

TEST(components, none_where_other_conflicts_join_them) {
  problem p;
  p.add({.size = 64, .live = {0, 4}});
  p.add({.size = 128, .live = {4, 6}});
  EXPECT_EQ(components_of(make_instance(p)).size(), 2u);
  p.separations.push_back({0, 1});
  EXPECT_TRUE(components_of(make_instance(p)).empty());
}

// A hard set is planned as if it were alone, beside any buffers that live at other times.
TEST(components, what_lives_at_other_times_makes_a_plan_no_worse) {
  for (const unsigned buffers : {60U, 120U, 240U}) {
    const problem hard = in_pieces_of(dense_set(buffers, 20), 4096);
    const plan alone = *solve(hard);
    problem both = hard;
    problem small;
    for (index i = 0; i < 300; ++i) small.add({.size = 1 + i % 37, .live = {i, i + 3}});
    append(both, small);
    EXPECT_LE(solve(both)->arena(), alone.arena()) << buffers;
  }
}

// The arena of two parts is the higher one's.
RC_GTEST_PROP(components, together_need_what_the_higher_one_needs, ()) {
  const auto simple = [] {
    problem p;
    const auto n = *rc::gen::inRange<unsigned>(1, 7);
    for (unsigned i = 0; i < n; ++i) {
      const auto lower = *rc::gen::inRange<tick>(0, 6);
      p.add({.size = *rc::gen::inRange<bytes>(1, 9) * 8,
             .live = {lower, lower + *rc::gen::inRange<tick>(1, 5)},
             .alignment = *rc::gen::element<bytes>(0, 8, 16, 3)});
    }
    return p;
  };
  const problem a = simple(), b = simple();
  problem both = a;
  append(both, b);
  const plan of_a = *solve(a), of_b = *solve(b), of_both = *solve(both);
  RC_PRE(of_a.optimal() && of_b.optimal());
  RC_ASSERT(of_both.arena() == std::max(of_a.arena(), of_b.arena()));
  RC_ASSERT(of_both.lower_bound() <= of_both.arena());
}

}  // namespace
}  // namespace berth::plan
