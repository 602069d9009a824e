// Peaks laid out alone, and all else fitted in around them.
#include "plan/single/peaks.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "berth/plan/verify.hpp"
#include "plan/bound/bounds.hpp"
#include "plan/dense_set.hpp"
#include "plan/greedy/ejection.hpp"
#include "plan/greedy/outward.hpp"
#include "support/sanitizers.hpp"

namespace berth::plan {
namespace {

problem even_set(std::uint64_t seed, std::uint32_t n, std::uint64_t alive) {
  numbers from{seed};
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto lower = static_cast<tick>(from.below(n));
    p.add({.size = 16 * (1 + from.below(4096)), .live = {lower, lower + 1 + static_cast<tick>(from.below(2 * alive))}});
  }
  return p;
}

layout start_of(const instance& in) {
  layout out;
  lower_outwards(in, out, 0, 0, {});
  return out;
}

std::optional<violation> check(const problem& p, const instance& in, const layout& of) {
  plan as_plan{.arena_bytes = static_cast<bytes>(of.arena) * in.unit, .status = status::feasible};
  for (const std::uint32_t i : in.item_of) as_plan.offsets.push_back(static_cast<bytes>(of.offsets[i]) * in.unit);
  return verify(p, as_plan);
}

}  // namespace

// Any target will do: one below the bound is not met, one far above it leaves no peaks.
RC_GTEST_PROP(peaks, a_lower_layout_is_a_plan, ()) {
  problem p = even_set(*rc::gen::arbitrary<std::uint64_t>(), 1000, *rc::gen::inRange<std::uint64_t>(4, 60));
  for (buffer& b : p.buffers) {
    if (*rc::gen::inRange(0, 40) == 0) b.alignment = 64;
  }
  const instance in = make_instance(p);
  const layout before = start_of(in);
  const units target = section_bound(in) * *rc::gen::inRange<units>(14, 18) / 16;
  layout after = before;
  (void)lower_peaks(in, after, target, {.node_limit = 2'000}, {});
  RC_ASSERT(after.arena < before.arena || after.offsets == before.offsets);
  RC_ASSERT(after.arena == arena_of(in, after.offsets));
  RC_ASSERT(!check(p, in, after));
}

// The same of what effort fast does with them; with any time to search in, none too.
RC_GTEST_PROP(peaks, a_core_that_is_placed_first_leaves_a_plan, ()) {
  problem p = even_set(*rc::gen::arbitrary<std::uint64_t>(), 1000, *rc::gen::inRange<std::uint64_t>(4, 60));
  for (buffer& b : p.buffers) {
    if (*rc::gen::inRange(0, 40) == 0) b.alignment = 64;
    if (*rc::gen::inRange(0, 3) == 0) b.size = 16;
  }
  const instance in = make_instance(p);
  const layout before = start_of(in);
  const units target = section_bound(in) * *rc::gen::inRange<units>(14, 18) / 16;
  layout after = before;
  (void)place_core_first(in, after, target, *rc::gen::element(0.0, 1e-3, 1e-2), {}, {});
  RC_ASSERT(after.arena < before.arena || after.offsets == before.offsets);
  RC_ASSERT(after.arena == arena_of(in, after.offsets));
  RC_ASSERT(!check(p, in, after));
}

TEST(peaks, end_at_the_bound_where_ejections_alone_are_stuck) {
  int at_bound = 0, ejected = 0;
  for (std::uint64_t seed = 1; seed <= support::cases(4); ++seed) {
    const problem p = even_set(seed, 6000, 100);
    const instance in = make_instance(p);
    const units bound = section_bound(in);
    layout by_peaks = start_of(in), alone = by_peaks;
    (void)lower_peaks(in, by_peaks, bound, {}, {});
    (void)lower_by_ejection(in, alone, bound, bound / 1024, 1'000'000);
    at_bound += by_peaks.arena == bound;
    ejected += alone.arena == bound;
    EXPECT_FALSE(check(p, in, by_peaks));
  }
  EXPECT_GT(at_bound, ejected);
}

TEST(peaks, are_left_alone_where_items_are_few_or_pinned) {
  problem p = even_set(1, 900, 40);
  instance in = make_instance(p);
  layout found = start_of(in);
  const layout before = found;
  EXPECT_EQ(lower_peaks(in, found, section_bound(in), {}, {}), 0U);
  EXPECT_EQ(found.offsets, before.offsets);
  p = even_set(1, 1500, 40);
  in = make_instance(p);
  found = start_of(in);
  in.items[3].pin = found.offsets[3];
  EXPECT_EQ(lower_peaks(in, found, section_bound(in), {}, {}), 0U);
}

// Items without a new place give way; with a target that leaves them none, all stays as it was.
TEST(ejection, gives_way_to_what_is_kept) {
  problem p;
  for (int i = 0; i < 3; ++i) p.add({.size = 4, .live = {0, 2}});
  const instance in = make_instance(p);
  layout found{.offsets = {0, 1, 2}, .arena = 3};  // in units of 4 bytes
  found.offsets[2] = 0;                            // it now lies where 0 does
  const std::uint32_t kept[] = {2};
  layout low = found;
  EXPECT_FALSE(eject_around(in, {kept, 16}, low, 2, 1000));
  ASSERT_TRUE(eject_around(in, {kept, 16}, found, 3, 1000));
  EXPECT_EQ(found.offsets, (std::vector<units>{2, 1, 0}));
  EXPECT_EQ(found.arena, 3);
}

// Sections are maximal sets again once items have gone.
TEST(instance, only_some_items_have_sections_of_their_own) {
  problem p;
  p.add({.size = 8, .live = {0, 6}});
  p.add({.size = 8, .live = {0, 1}});
  p.add({.size = 8, .live = {2, 3}});
  p.add({.size = 8, .live = {4, 9}});
  p.add({.size = 8, .live = {7, 9}});
  const instance in = make_instance(p);
  ASSERT_EQ(in.sections, 4U);
  const instance some = only(in, {0, 3, 4});
  EXPECT_EQ(some.sections, 2U);
  ASSERT_EQ(some.items.size(), 3U);
  EXPECT_EQ(some.ranges[0], (section_range{0, 1, 1}));
  EXPECT_EQ(some.ranges[1], (section_range{0, 2, 1}));
  EXPECT_EQ(some.ranges[2], (section_range{1, 2, 1}));
}

}  // namespace berth::plan
