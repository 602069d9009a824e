#include "plan/wishes/reuse.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "plan/brute_force.hpp"
#include "plan/generate.hpp"

namespace berth::plan {
namespace {

// A plan that thought of no penalty.
plan without_penalties(problem p) {
  p.reuse_penalties.clear();
  return *solve(p);
}

}  // namespace

// The sum that it tells, against one that compares byte by byte.
RC_GTEST_PROP(reuse, counts_what_shares_bytes, ()) {
  const auto p = generate::random_problem({.most_buffers = 10, .most_memories = 2, .most_size = 8, .most_ticks = 8});
  if (!p) return;
  const plan answer = without_penalties(*p);
  if (!answer.has_offsets()) return;
  RC_ASSERT(reuse_penalty_of(*p, answer) == brute_force::penalty(*p, brute_force::spots_of(*p, answer)));
}

// It never pays more, needs no larger arena, and keeps every rule.
RC_GTEST_PROP(reuse, lowers_the_penalty_in_the_same_arena, ()) {
  const auto p = generate::random_problem(
      {.most_buffers = 14, .most_memories = 2, .most_size = 10, .most_ticks = 12, .slabs = generate::one_in(3)});
  if (!p || p->reuse_penalties.empty()) return;
  const plan before = without_penalties(*p);
  if (!before.has_offsets()) return;
  plan after = before;
  lower_reuse_penalty(*p, {.work = *rc::gen::element(effort::fast, effort::normal)}, {}, after);
  RC_ASSERT(brute_force::accepts(*p, after));
  RC_ASSERT(after.arena() <= before.arena());
  RC_ASSERT(after.reuse_penalty == reuse_penalty_of(*p, after));
  RC_ASSERT(after.reuse_penalty <= reuse_penalty_of(*p, before));
}

// One move is enough at effort fast, and what no move can part stays paid.
TEST(reuse, moves_a_buffer_away_from_the_dearer_one) {
  problem p;
  p.add({.size = 8, .live = {0, 1}});
  p.add({.size = 4, .live = {1, 2}});
  p.add({.size = 4, .live = {2, 3}});
  p.reuse_penalties = {{1, 2, 3}, {0, 1, 2}};
  plan answer;
  answer.offsets = {0, 0, 0};
  answer.arena_bytes = 8;
  answer.status = status::feasible;
  lower_reuse_penalty(p, {.work = effort::fast}, {}, answer);
  EXPECT_EQ(answer.reuse_penalty, 2);
  EXPECT_EQ(answer.arena(), 8U);
  EXPECT_NE(answer.offset(1), answer.offset(2));
}

// No single move can exchange two buffers that fill the arena.
TEST(reuse, exchanges_two_buffers) {
  problem p;
  for (const bytes at : {0, 4}) p.add({.size = 4, .live = {0, 1}, .offset = at});
  for (int i = 0; i < 2; ++i) p.add({.size = 4, .live = {1, 2}});
  p.reuse_penalties = {{0, 2, 1}, {1, 3, 1}};
  for (const effort work : {effort::fast, effort::normal, effort::best}) {
    plan answer;
    answer.offsets = {0, 4, 0, 4};
    answer.arena_bytes = 8;
    answer.status = status::feasible;
    lower_reuse_penalty(p, {.work = work}, {}, answer);
    EXPECT_EQ(answer.reuse_penalty, 0);
    EXPECT_EQ(answer.offsets, (std::vector<bytes>{0, 4, 4, 0}));
  }
}

// More effort goes on from the same plan, so it pays no more.
RC_GTEST_PROP(reuse, more_effort_pays_no_more, ()) {
  const auto p = generate::random_problem({.most_buffers = 40, .most_memories = 2, .most_size = 30, .most_ticks = 30});
  if (!p || p->reuse_penalties.empty()) return;
  plan fast = without_penalties(*p);
  if (!fast.has_offsets()) return;
  plan normal = fast;
  lower_reuse_penalty(*p, {.work = effort::fast}, {}, fast);
  lower_reuse_penalty(*p, {.work = effort::normal}, {}, normal);
  RC_ASSERT(normal.reuse_penalty <= fast.reuse_penalty);
}

// Each move looks for a place among 3000 blocks, and tries some 6000.
TEST(reuse, moves_among_thousands_that_live_throughout) {
  constexpr index throughout = 3000, brief = 4000;
  problem p;
  for (index i = 0; i < throughout; ++i) p.add({.size = 16 + i % 8, .live = {0, 2 * brief}});
  for (index i = 0; i < brief; ++i) p.add({.size = 16 + i % 8, .live = {2 * i, 2 * i + 1}});
  for (index i = 0; i + 1 < brief; ++i) p.reuse_penalties.push_back({throughout + i, throughout + i + 1, 1});
  plan answer = without_penalties(p);
  const bytes arena = answer.arena();
  lower_reuse_penalty(p, {.work = effort::fast}, {}, answer);
  EXPECT_EQ(answer.arena(), arena);
  EXPECT_LT(answer.reuse_penalty, brief);
}

}  // namespace berth::plan
