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

}  // namespace berth::plan
