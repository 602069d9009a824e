#include "plan/several/slabs.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "plan/brute_force.hpp"
#include "plan/generate.hpp"

namespace berth::plan {
namespace {

// Buffers with lifetimes alone, or, where `more`, a group, pins and separations besides.
problem random_set(int buffers, bool more) {
  problem p;
  for (int i = 0; i < buffers; ++i) {
    buffer b{.size = 1 + static_cast<bytes>(generate::upto(9)), .live = generate::lifetime(0, 12)};
    if (more && generate::one_in(8)) b.alias_group = 0;
    if (more && generate::one_in(8)) b.alignment = 4;
    p.add(b);
  }
  if (more && !(p.buffers[0].alias_group && p.buffers[1].alias_group)) p.separations.push_back({0, 1});
  return p;
}

// The plan as one of a problem that is cut into slabs, by rules of its own.
bool keeps_the_rules(problem p, bytes max_slab, const plan& answer) {
  p.max_slab = max_slab;
  return brute_force::accepts(p, answer);
}

// The sum of slabs into which buffers are put by falling size, each at the lowest place of the first slab that takes
// it.
bytes first_fit_by_size(const problem& p, bytes max_slab) {
  std::vector<buffer> buffers = p.buffers;
  std::stable_sort(buffers.begin(), buffers.end(), [](const buffer& a, const buffer& b) { return a.size > b.size; });
  struct placed {
    interval live;
    bytes from, to;
  };
  std::vector<std::vector<placed>> slabs;
  for (const buffer& b : buffers) {
    for (std::size_t k = 0;; ++k) {
      if (k == slabs.size()) slabs.emplace_back();
      bytes at = 0;
      for (const placed& below : slabs[k]) {  // by where they begin
        const bool meets = b.live.lower < below.live.upper && below.live.lower < b.live.upper;
        if (meets && below.from < at + b.size) at = std::max(at, below.to);
      }
      if (at + b.size > max_slab) continue;
      slabs[k].push_back({b.live, at, at + b.size});
      std::sort(slabs[k].begin(), slabs[k].end(), [](const placed& x, const placed& y) { return x.from < y.from; });
      break;
    }
  }
  bytes sum = 0;
  for (const auto& slab : slabs) {
    bytes top = 0;
    for (const placed& one : slab) top = std::max(top, one.to);
    sum += top;
  }
  return sum;
}

}  // namespace

// Few bundles: every split is tried. Against every layout that there is.
RC_GTEST_PROP(slabs, of_few_buffers_need_the_least_sum, ()) {
  problem p;
  for (int i = 0, n = 1 + generate::upto(2); i < n; ++i) {
    p.add({.size = 1 + static_cast<bytes>(generate::upto(3)), .live = generate::lifetime(0, 4)});
  }
  const bytes max_slab = 4 + static_cast<bytes>(generate::upto(3));
  const plan answer = solve_slabs(p, max_slab, {}, {});
  RC_ASSERT(answer.status == status::optimal);
  RC_ASSERT(keeps_the_rules(p, max_slab, answer));
  problem cut = p;
  cut.max_slab = max_slab;
  RC_ASSERT(answer.arena() == *brute_force::smallest_arena(cut));
}

// Many: by height, by birth or by size, and then moved. Never more than every buffer in a slab of its own.
RC_GTEST_PROP(slabs, of_many_buffers_keep_the_rules, ()) {
  const problem p = random_set(11 + generate::upto(40), generate::one_in(2));
  RC_PRE(validate(p));
  const bytes max_slab = 13 + static_cast<bytes>(generate::upto(30));
  const plan answer = solve_slabs(p, max_slab, {.work = *rc::gen::element(effort::fast, effort::normal)}, {});
  RC_ASSERT(answer.has_offsets());
  RC_ASSERT(keeps_the_rules(p, max_slab, answer));
  bytes stacked = 0;  // one above the other: aligned ones may have a gap below
  for (index i = 0; i < p.buffers.size(); ++i) stacked += p.footprint(i) + p.alignment_of(i) - 1;
  RC_ASSERT(answer.arena() <= stacked);
  RC_ASSERT(answer.lower_bound() <= answer.arena());
}

// A few large buffers among many small ones, more than are moved from slab to slab.
TEST(slabs, of_hundreds_of_buffers_need_no_more_than_first_fit_by_size) {
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U}) {
    std::mt19937 random{seed};
    problem p;
    for (int i = 0; i < 600; ++i) {
      const auto lower = static_cast<tick>(random() % 400);
      p.add(
          {.size = (1 + random() % 9) << random() % 14, .live = {lower, lower + 1 + static_cast<tick>(random() % 60)}});
    }
    const bytes max_slab = bytes{1} << 17;
    for (const effort level : {effort::fast, effort::normal}) {
      const plan answer = solve_slabs(p, max_slab, {.work = level}, {});
      EXPECT_TRUE(keeps_the_rules(p, max_slab, answer)) << seed;
      EXPECT_LE(answer.arena(), first_fit_by_size(p, max_slab)) << seed;
    }
  }
}

// Wherever the wait ends, also between two slabs that a buffer is moved from and to: what is answered keeps the rules.
TEST(slabs, stopped_anywhere_keep_the_rules) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    problem p;
    for (int i = 0; i < 60; ++i) {
      const auto lower = static_cast<tick>(random() % 60);
      p.add({.size = 1 + random() % 100, .live = {lower, lower + 1 + static_cast<tick>(random() % 20)}});
    }
    p.separations = {{0, 1}, {2, 3}};
    for (std::uint64_t looks = 1 << 12; looks < 1 << 27; looks += looks / 4) {
      const plan answer = solve_slabs(p, 170, {}, patience::of_looks(looks));
      if (answer.has_offsets()) {
        ASSERT_EQ(answer.offsets.size(), answer.slab_of.size());
        ASSERT_TRUE(keeps_the_rules(p, 170, answer)) << "seed " << seed << " looks " << looks;
      }
    }
  }
}

TEST(slabs, one_is_enough_where_all_fit_it) {
  problem p;
  for (tick t = 0; t < 20; ++t) p.add({.size = 5, .live = {t, t + 2}});
  const plan answer = solve_slabs(p, 10, {}, {});
  EXPECT_EQ(answer.status, status::optimal);
  EXPECT_EQ(answer.arena(), 10U);
  EXPECT_EQ(std::count(answer.slab_of.begin(), answer.slab_of.end(), 0U), 20);
}

TEST(slabs, the_capacity_is_for_all_of_them) {
  problem p;
  p.capacity = 19;
  for (int i = 0; i < 4; ++i) p.add({.size = 5, .live = {0, 1}});
  EXPECT_EQ(solve_slabs(p, 10, {}, {}).status, status::infeasible);
  p.capacity = 20;
  EXPECT_EQ(solve_slabs(p, 10, {}, {}).arena(), 20U);
}

TEST(slabs, none_takes_a_buffer_that_is_larger) {
  problem p;
  p.add({.size = 4, .live = {0, 1}});
  const index large = p.add({.size = 11, .live = {0, 1}});
  const plan answer = solve_slabs(p, 10, {}, {});
  EXPECT_EQ(answer.status, status::infeasible);
  EXPECT_EQ(answer.culprit, large);
}

// In one memory no plan could keep these pins: of any five alive at the same time each needs a slab of its own.
TEST(slabs, pins_that_clash_lie_in_different_slabs) {
  problem p;
  for (tick t = 0; t < 20; ++t) p.add({.size = 5, .live = {t, t + 5}, .offset = 2});
  for (tick t = 0; t < 20; ++t) p.add({.size = 2, .live = {t, t + 5}});
  const plan answer = solve_slabs(p, 10, {.work = effort::fast}, {});
  ASSERT_TRUE(answer.has_offsets());
  EXPECT_TRUE(keeps_the_rules(p, 10, answer));
}

// Half are pinned at one offset, so that each of those needs a slab of its own.
problem half_pinned(int buffers) {
  std::mt19937 random{5};
  problem p;
  for (int i = 0; i < buffers; ++i) {
    p.add({.size = 1 + random() % 900, .live = {0, 9}});
    if (i % 2 != 0) p.buffers.back().offset = 0;
  }
  return p;
}

// However soon the wait ends.
TEST(slabs, pins_that_clash_are_stacked_apart) {
  const problem p = half_pinned(400);
  for (const std::uint64_t looks : {0, 10'000, 1'000'000}) {
    const plan answer = solve_slabs(p, 1000, {}, patience::of_looks(looks));
    ASSERT_TRUE(answer.has_offsets()) << looks;
    EXPECT_TRUE(keeps_the_rules(p, 1000, answer)) << looks;
  }
}

// All that clash go at once: one by one, so many would be laid out 20,000 times, in half a minute.
TEST(slabs, pins_that_clash_are_laid_out_twice_a_slab) {
  const problem p = half_pinned(400);
  const plan answer = solve_slabs(p, 1000, {.work = effort::fast}, {});
  ASSERT_TRUE(answer.has_offsets());
  EXPECT_TRUE(keeps_the_rules(p, 1000, answer));
}

// Explicit conflicts, gaps between lifetimes, groups, separations and a reserved range: whatever makes pins clash.
RC_GTEST_PROP(slabs, of_many_pins_keep_the_rules, ()) {
  problem p = random_set(11 + generate::upto(30), true);
  p.separations.push_back({0, 2});
  for (index i = 0; i < p.buffers.size(); ++i) {
    buffer& b = p.buffers[i];
    if (generate::one_in(3)) b.lifetimes = {b.live, {b.live.upper + 2, b.live.upper + 4}};
    if (!b.alias_group && generate::one_in(2)) b.offset = static_cast<bytes>(4 * (1 + generate::upto(2)));
  }
  if (generate::one_in(3)) {
    p.conflicts.emplace();
    for (index i = 1; i < p.buffers.size(); ++i) p.conflicts->push_back({i - 1, i});
  }
  if (generate::one_in(3)) p.memories = {{.name = "m", .reserved = {{0, 2}, {40, max_address}}}};
  RC_PRE(validate(p));
  const plan answer = solve_slabs(p, 30, {.work = effort::fast}, {});
  RC_ASSERT(answer.has_offsets());
  RC_ASSERT(keeps_the_rules(p, 30, answer));
}

// No way to fill slabs finds a place for any buffer.
TEST(slabs, none_where_every_place_is_reserved) {
  problem p;
  p.memories = {{.name = "m", .reserved = {{0, 10}}}};
  for (tick t = 0; t < 20; ++t) p.add({.size = 5, .live = {t, t + 2}});
  EXPECT_FALSE(solve_slabs(p, 10, {}, {}).has_offsets());
}

}  // namespace berth::plan
