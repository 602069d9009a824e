#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>
#include <utility>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/brute_force.hpp"
#include "plan/generate.hpp"
#include "support/sanitizers.hpp"

namespace berth::plan {
namespace {

using old_offsets = std::vector<std::optional<bytes>>;

result<plan> replan(const problem& p, const old_offsets& before, options o = {}) {
  const former_places former{.offsets = before};
  o.former = &former;
  return solve(p, o);
}

TEST(replan, a_buffer_that_grows_takes_the_place_of_one) {
  problem p;
  for (int i = 0; i < 4; ++i) p.add({.size = 8, .live = {0, 10}});
  p.add({.size = 24, .live = {20, 30}});
  p.add({.size = 8, .live = {20, 30}});
  const old_offsets before{8, 0, 24, 16, 0, 24};
  const auto same = replan(p, before);
  EXPECT_EQ(same->moved, 0u);
  EXPECT_TRUE(same->moved_fewest);
  p.buffers[1].size = 16;
  const auto grown = replan(p, before);
  EXPECT_EQ(grown->arena(), 40u);
  EXPECT_EQ(grown->moved, 1u);
  EXPECT_EQ(grown->moved_bytes, 8u);
  EXPECT_TRUE(grown->moved_fewest);
}

TEST(replan, the_arena_comes_before_what_stays) {
  problem p;
  p.add({.size = 8, .live = {0, 1}});
  p.add({.size = 8, .live = {0, 1}});
  const auto answer = replan(p, old_offsets{0, 16});
  EXPECT_EQ(answer->arena(), 16u);
  EXPECT_EQ(answer->moved, 1u);
  EXPECT_TRUE(answer->moved_fewest);
}

TEST(replan, new_buffers_and_empty_ones_do_not_move) {
  problem p;
  p.add({.size = 0, .live = {0, 1}});
  p.add({.size = 8, .live = {0, 1}});
  p.add({.size = 8, .live = {0, 1}});
  const auto answer = replan(p, old_offsets{40, 8, {}});
  EXPECT_EQ(answer->moved, 0u);
  EXPECT_EQ(answer->offsets, (std::vector<bytes>{0, 8, 0}));
}

TEST(replan, refuses_too_few_offsets) {
  problem p;
  p.add({.size = 8, .live = {0, 1}});
  EXPECT_FALSE(replan(p, {}));
  const former_places two_memories{.offsets = {0}, .memory_of = {0, 0}};
  EXPECT_FALSE(solve(p, {.former = &two_memories}));
}

TEST(replan, is_for_problems_whose_plan_is_one_place_a_buffer) {
  problem p;
  p.add({.size = 8, .live = {0, 1}});
  p.dimensions = {{"n", 1, 2}};
  EXPECT_FALSE(replan(p, {0}));
  p.dimensions.clear();
  p.memories.resize(2);
  p.buffers[0].uses = {{.at = 0}};
  EXPECT_FALSE(replan(p, {0}));
}

TEST(replan, one_change_in_a_large_problem_moves_little) {
  problem p;
  std::uint64_t x = 1;
  for (int i = 0; i < 2000; ++i) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    const tick lower = static_cast<tick>((x >> 33) % 4000);
    p.add({.size = 64 * (1 + (x >> 20) % 100), .live = {lower, lower + 1 + static_cast<tick>((x >> 50) % 60)}});
  }
  const plan first = *solve(p, {.work = effort::fast});
  old_offsets before{first.offsets.begin(), first.offsets.end()};
  p.buffers[700].size += 64;
  p.buffers[1300].live.upper += 3;
  before.push_back({});
  p.add({.size = 640, .live = {100, 140}});
  const auto answer = replan(p, before, {.work = effort::fast});
  EXPECT_LE(answer->moved, 5u);
  EXPECT_LE(answer->arena(), solve(p, {.work = effort::fast})->arena());
}

// A new buffer's hint may be what keeps an old one from its place; fewest must not be said then.
TEST(replan, a_hint_of_a_new_buffer_proves_nothing) {
  problem p;
  p.add({.size = 5, .live = {3, 5}});
  p.add({.size = 1, .live = {0, 1}});
  p.add({.size = 1, .live = {2, 4}, .hint = 5});
  p.separations = {{0, 1}, {1, 2}};
  const auto answer = replan(p, old_offsets{0, 5, std::nullopt});
  EXPECT_TRUE(!answer->moved_fewest || answer->moved == 0);
}

// In an arena of the size given, the fewest buffers that have to move.
std::size_t fewest_moves(const problem& p, const old_offsets& before, bytes arena) {
  std::size_t fewest = p.buffers.size();
  brute_force::for_each_layout(p, [&](const std::vector<brute_force::spot>& spots) {
    if (brute_force::arena(p, spots) > arena) return;
    std::size_t moved = 0;
    for (index i = 0; i < spots.size(); ++i) {
      moved += before[i] && p.footprint(i) != 0 && spots[i].offset != *before[i];
    }
    fewest = std::min(fewest, moved);
  });
  return fewest;
}

// The arena ends at its pin, so that the other one need not move.
TEST(replan, an_empty_buffer_pinned_above_all_leaves_room_below) {
  problem p;
  p.add({.size = 1, .live = {0, 1}});
  p.add({.size = 0, .live = {0, 1}, .offset = 3});
  const plan answer = *replan(p, old_offsets{1, std::nullopt});
  EXPECT_EQ(answer.moved, 0U);
  EXPECT_TRUE(answer.moved_fewest);
  EXPECT_EQ(answer.arena(), 3U);
}

// Places that no plan within the capacity can keep.
TEST(replan, what_fits_a_capacity_fits_it_again) {
  for (unsigned seed = 0; seed < support::cases(400); ++seed) {
    std::mt19937 random{seed};
    problem p;
    old_offsets before;
    for (int i = 0; i < 20; ++i) {
      const auto lower = static_cast<tick>(random() % 12);
      p.add({.size = 1 + random() % 16, .live = {lower, lower + 1 + static_cast<tick>(random() % 4)}});
      before.push_back(random() % 40);
    }
    p.capacity = solve(p, {.work = effort::fast})->arena();
    if (!solve(p, {.work = effort::fast})->has_offsets()) continue;
    const auto again = replan(p, before, {.work = effort::fast});
    ASSERT_TRUE(again && again->has_offsets()) << seed;
    EXPECT_EQ(verify(p, *again), std::nullopt);
    EXPECT_LE(again->arena(), *p.capacity);
  }
}

RC_GTEST_PROP(replan, agrees_with_the_exhaustive_oracle, ()) {
  for (int round = 0; round < 5; ++round) {
    const auto p = generate::random_problem({.most_buffers = 4, .most_size = 4, .most_ticks = 5});
    if (!p) continue;
    old_offsets before;
    for (const buffer& b : p->buffers) {
      before.push_back(generate::one_in(5) ? std::nullopt
                                           : std::optional<bytes>{*rc::gen::inRange<bytes>(0, b.size + 8)});
    }
    const plan answer = *replan(*p, before);
    const plan fresh = *solve(*p);
    RC_ASSERT(answer.status == fresh.status);
    if (!fresh.has_offsets()) continue;
    RC_ASSERT(answer.arena() == fresh.arena());
    RC_ASSERT(brute_force::accepts(*p, answer));
    if (!p->reuse_penalties.empty()) continue;  // they come before what stays
    const std::size_t fewest = fewest_moves(*p, before, fresh.arena());
    RC_ASSERT(answer.moved >= fewest);
    if (answer.moved_fewest) RC_ASSERT(answer.moved == fewest);
    RC_CLASSIFY(answer.moved == fewest, "fewest moved");
    RC_CLASSIFY(answer.moved_fewest, "and proved");
  }
}

RC_GTEST_PROP(replan, is_deterministic_and_sound_with_every_constraint, ()) {
  const auto p =
      generate::random_problem({.most_buffers = 12, .most_memories = 3, .most_size = 20, .slabs = generate::one_in(3)});
  if (!p) return;
  old_offsets before;
  for (std::size_t i = 0; i < p->buffers.size(); ++i) before.push_back(*rc::gen::inRange<bytes>(0, 60));
  for (const effort work : {effort::fast, effort::normal}) {
    const plan a = *replan(*p, before, {.work = work}), b = *replan(*p, before, {.work = work, .threads = 3});
    RC_ASSERT(a.offsets == b.offsets && a.moved == b.moved);
    if (!a.has_offsets()) continue;
    RC_ASSERT(!verify(*p, a));
  }
}

std::pair<problem, old_offsets> twelve_at_random(std::mt19937& random) {
  problem p;
  old_offsets before;
  for (int i = 0; i < 12; ++i) {
    const auto lower = static_cast<tick>(random() % 12);
    p.add({.size = 1 + random() % 15, .live = {lower, lower + 1 + static_cast<tick>(random() % 8)}});
    before.push_back(random() % 50);
  }
  return {p, before};
}

// Places that the greedy layouts at effort fast would keep to made them end above solve()'s.
TEST(replan, needs_no_more_than_a_plan_without_old_places) {
  for (unsigned seed = 0; seed < support::cases(100); ++seed) {
    std::mt19937 random(seed);
    auto [p, before] = twelve_at_random(random);
    if (seed % 2 == 0) p.max_slab = 15 + random() % 20;
    for (const effort work : {effort::fast, effort::normal}) {
      const options o{.work = work, .node_limit = 200};
      ASSERT_LE(replan(p, before, o)->arena(), solve(p, o)->arena()) << "seed " << seed;
    }
  }
}

// Hints of the problem's own led solve() to other layouts than the old places did, one in a hundred a lower one.
TEST(replan, needs_no_more_than_a_plan_with_hints) {
  for (unsigned seed = 0; seed < support::cases(400); ++seed) {
    std::mt19937 random(seed);
    auto [p, before] = twelve_at_random(random);
    p.buffers[random() % 12].hint = random() % 50;
    const options o{.work = effort::fast};
    ASSERT_LE(replan(p, before, o)->arena(), solve(p, o)->arena()) << "seed " << seed;
  }
}

// Hints are kept where they cost nothing, whatever found the plan.
RC_GTEST_PROP(hints, are_kept_where_the_arena_allows_it, ()) {
  auto p = generate::random_problem({.most_buffers = 8, .most_size = 12, .penalties = false});
  if (!p) return;
  const plan first = *solve(*p);
  if (!first.has_offsets()) return;
  // The offsets of one layout as hints of all: that very layout is asked for.
  for (index i = 0; i < p->buffers.size(); ++i) {
    p->buffers[i].hint = first.offset(i);
  }
  const plan again = *solve(*p);
  RC_ASSERT(again.arena() == first.arena());
  for (index i = 0; i < p->buffers.size(); ++i) RC_ASSERT(p->footprint(i) == 0 || again.offset(i) == first.offset(i));
}

}  // namespace
}  // namespace berth::plan
