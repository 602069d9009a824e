#include "plan/patience.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <numeric>

#include "berth/plan/verify.hpp"
#include "plan/dense_set.hpp"
#include "plan/generate.hpp"
#include "plan/model/within.hpp"
#include "plan/verify/within.hpp"
#include "support/sanitizers.hpp"

namespace berth::plan {
namespace {

problem in_three_memories(problem p) {
  bytes total = 0;
  for (const buffer& b : p.buffers) total += b.size;
  p.memories = {{.name = "a", .capacity = total / 40, .cost = 1},
                {.name = "b", .capacity = total / 30, .cost = 2},
                {.name = "c", .cost = 5}};
  return p;
}

problem with_hints(problem p) {
  numbers from{7};
  for (buffer& b : p.buffers) b.hint = from.below(1 << 26);
  return p;
}

problem with_penalties(problem p) {
  numbers from{8};
  const std::uint64_t n = p.buffers.size();
  for (std::uint64_t k = 0; k < n; ++k) {
    const auto a = static_cast<index>(from.below(n)), b = static_cast<index>((a + 1 + from.below(n - 1)) % n);
    p.reuse_penalties.push_back({a, b, 1});
  }
  return p;
}

problem in_slabs(problem p, bytes largest) {
  p.max_slab = largest;
  return p;
}

struct slow {
  const char* name;
  problem p;
  effort work;
  std::uint64_t looks;  // that it takes at least, left alone
};

TEST(patience, is_asked_by_every_stage_that_takes_long_and_heard) {
  problem pinned = dense_set(2000, 1000);  // which no sweep lays
  pinned.buffers[7].offset = 1 << 20;
  const std::vector<slow> all{
      {"one order", pinned, effort::fast, 500'000},
      {"orders", pinned, effort::normal, 2'000'000},
      {"search", dense_set(200, 50), effort::normal, 500'000},
      {"ejections", dense_set(6000, 500), effort::normal, 1'000'000},
      {"large sets", dense_set(21'000, 300), effort::normal, 2'000'000},
      {"memories", in_three_memories(dense_set(300, 60)), effort::normal, 1'000'000},
      {"hints", with_hints(dense_set(300, 100)), effort::normal, 1'000'000},
      {"penalties", with_penalties(dense_set(1000, 100)), effort::normal, 500'000},
      {"slabs", in_slabs(dense_set(100, 40), 8 << 20), effort::normal, 1'000'000},
      {"many slabs", in_slabs(dense_set(2000, 1000), 1 << 20), effort::fast, 20'000'000},
  };
  constexpr std::uint64_t soon = 50'000;
  for (const slow& one : all) {
    SCOPED_TRACE(one.name);
    if (!support::sanitized) {  // which counts as much, for minutes
      const patience endless;
      const auto whole = solve_within(one.p, {.work = one.work}, endless);
      ASSERT_TRUE(whole && whole->has_offsets());
      EXPECT_FALSE(whole->deadline_hit);
      EXPECT_GE(endless.looks(), one.looks) << "a stage does not tell what it does";
    }

    const patience wait = patience::of_looks(soon);
    const auto cut = solve_within(one.p, {.work = one.work}, wait);
    ASSERT_TRUE(cut);
    EXPECT_TRUE(cut->deadline_hit);
    EXPECT_LE(wait.looks(), 10 * soon) << "a stage goes on";
  }
}

TEST(patience, that_is_over_at_once_still_gives_a_plan_of_one_memory) {
  const std::atomic<bool> stop{true};
  for (const effort work : {effort::fast, effort::normal, effort::best}) {
    problem p = dense_set(5000, 2000);
    p.buffers[17].offset = 1 << 20;
    p.buffers[18].alignment = 4096;
    const auto got = solve(p, {.work = work, .stop = &stop});
    ASSERT_TRUE(got && got->has_offsets());
    EXPECT_TRUE(got->deadline_hit);
    EXPECT_FALSE(verify(p, *got));
  }
}

// Each but the first and last conflicts with two others. A first fit so needs no more than their sizes and its own,
// twice, wherever it begins.
problem chain(problem p) {
  p.conflicts.emplace();
  for (index i = 1; i < p.buffers.size(); ++i) p.conflicts->push_back({i - 1, i});
  return p;
}

TEST(patience, that_is_over_at_once_stacks_nothing_that_conflicts_explicitly) {
  const problem p = chain(dense_set(5000, 10));
  const std::atomic<bool> stop{true};
  for (const effort work : {effort::fast, effort::normal, effort::best}) {
    const auto got = solve(p, {.work = work, .stop = &stop});
    ASSERT_TRUE(got && got->has_offsets());
    EXPECT_FALSE(verify(p, *got));
    EXPECT_LE(got->arena_bytes, 5 << 20);
  }
}

TEST(patience, that_is_over_at_once_sweeps_what_is_separated) {
  problem p = dense_set(5000, 100);
  numbers from{1};
  for (index i = 0; i < 5000; ++i) p.separations.push_back({i, (i + 1 + static_cast<index>(from.below(4000))) % 5000});
  const std::atomic<bool> stop{true};
  const auto got = solve(p, {.stop = &stop});
  ASSERT_TRUE(got && got->has_offsets());
  EXPECT_FALSE(verify(p, *got));
  EXPECT_LE(got->arena_bytes, 2 * got->lower_bound_bytes);
}

// A group of none but empty buffers never lives.
TEST(patience, that_is_over_at_once_places_empty_groups) {
  problem p = dense_set(5000, 100);
  p.buffers[17].offset = 1 << 20;  // which no sweep lays
  for (const index i : {100U, 200U}) {
    p.buffers[i].size = 0;
    p.buffers[i].alias_group = 0;
  }
  const std::atomic<bool> stop{true};
  const auto got = solve(p, {.stop = &stop});
  ASSERT_TRUE(got && got->has_offsets());
  EXPECT_FALSE(verify(p, *got));
}

// Each of them looks at every range, which is more than the passes may.
TEST(patience, of_the_passes_that_ends_beside_many_reserved_ranges_stacks_nothing_that_conflicts_explicitly) {
  problem p = chain(dense_set(2000, 10));
  p.memories.resize(1);
  for (index i = 0; i < p.buffers.size(); ++i) p.memories[0].reserved.push_back({4 * i, 4 * i + 1});
  const auto got = solve(p, {.work = effort::fast});
  ASSERT_TRUE(got && got->has_offsets());
  EXPECT_FALSE(verify(p, *got));
  EXPECT_LE(got->arena_bytes, 10 << 20);
}

TEST(patience, that_is_over_at_once_still_gives_a_plan_of_several_memories) {
  const std::atomic<bool> stop{true};
  for (const effort work : {effort::fast, effort::normal, effort::best}) {
    problem p = in_three_memories(dense_set(5000, 200));
    p.buffers[17].offset = 1 << 20;
    p.buffers[40].alias_group = p.buffers[41].alias_group = 3;
    for (const bool slabs : {false, true}) {
      if (slabs) p.max_slab = 32 << 20;
      const auto got = solve(p, {.work = work, .stop = &stop});
      ASSERT_TRUE(got && got->has_offsets());
      EXPECT_TRUE(got->deadline_hit);
      EXPECT_FALSE(verify(p, *got));
      EXPECT_NE(got->memory_of, std::vector<index>(p.buffers.size(), 2)) << "all in the dearest";
    }
  }
}

// So many conflicts that not even the last repair comes to its end: what has a memory without end lies there.
TEST(patience, that_is_over_at_once_gives_a_plan_where_a_memory_has_no_end) {
  const std::atomic<bool> stop{true};
  problem p = dense_set(20'000, 10'000);
  for (buffer& b : p.buffers) b.size = 1 + b.size / 64;
  p.memories = {{.name = "a", .capacity = 100'000, .cost = 1}, {.name = "b", .cost = 2}};
  const auto got = solve(p, {.stop = &stop});
  ASSERT_TRUE(got && got->has_offsets());
  EXPECT_TRUE(got->deadline_hit);
  EXPECT_FALSE(verify(p, *got));
}

TEST(patience, that_ends_beside_several_memories_gives_what_effort_fast_does) {
  const problem p = in_three_memories(dense_set(300, 60));
  const patience endless;
  const auto quick = solve_within(p, {.work = effort::fast}, endless);
  const auto cut = solve_within(p, {}, patience::of_looks(3 * endless.looks() / 2));
  ASSERT_TRUE(quick && cut && quick->has_offsets());
  EXPECT_TRUE(cut->deadline_hit);
  EXPECT_EQ(cut->memory_of, quick->memory_of);
}

TEST(patience, that_may_end_and_does_not_changes_no_plan_of_several_memories) {
  for (const std::size_t n : {20, 50, 120}) {
    for (const effort work : {effort::fast, effort::normal}) {
      const problem p = in_three_memories(dense_set(static_cast<index>(n), static_cast<tick>(n / 5)));
      const auto without = solve(p, {.work = work});
      const auto with = solve(p, {.work = work, .deadline_s = 1e6});
      ASSERT_TRUE(without && with && with->has_offsets());
      EXPECT_FALSE(with->deadline_hit);
      EXPECT_EQ(without->offsets, with->offsets);
      EXPECT_EQ(without->memory_of, with->memory_of);
      EXPECT_EQ(without->lower_bound(), with->lower_bound());
    }
  }
}

// No caller waits for so many until the last plan is verified: the answer is a plan verified before, or a stack.
TEST(patience, of_many_buffers_may_end_at_any_stage) {
  problem plain = dense_set(140'000, 12), mixed = plain;
  mixed.buffers[17].offset = 1 << 20;
  mixed.buffers[40].alias_group = mixed.buffers[41].alias_group = 3;
  mixed.buffers[50].alignment = 4096;
  for (const problem& p : {plain, mixed}) {
    for (const std::uint64_t looks : {0, 1'000'000, 4'000'000, 30'000'000}) {
      SCOPED_TRACE(looks);
      const patience wait = patience::of_looks(looks);
      const auto cut = solve_within(p, {}, wait);
      ASSERT_TRUE(cut && cut->has_offsets());
      EXPECT_TRUE(cut->deadline_hit == wait.was_over());
      EXPECT_LE(wait.looks(), looks + 2'000'000) << "a stage goes on";
      EXPECT_FALSE(verify(p, *cut));
      EXPECT_FALSE(verify_bound(p, 0, cut->proof));
      EXPECT_TRUE(looks != 0 || cut->solver == "stacked" || cut->solver == "sweep");
      EXPECT_TRUE(looks < 30'000'000 || cut->solver != "stacked");
    }
  }
}

TEST(patience, of_many_buffers_that_cannot_be_stacked_gives_no_plan_and_says_why) {
  problem p = dense_set(140'000, 12);
  p.capacity = 1 << 20;
  const auto cut = solve_within(p, {}, patience::of_looks(0));
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->status, status::unknown);
  EXPECT_TRUE(cut->deadline_hit);
  EXPECT_EQ(cut->reason, "it was stopped before there was a plan");
}

TEST(patience, of_a_deadline_that_has_passed_is_over) {
  const patience wait{options{.deadline_s = 0}};
  EXPECT_TRUE(wait.over());
  EXPECT_TRUE(wait.was_over());
  const patience long_one{options{.deadline_s = 1e300}};
  EXPECT_FALSE(long_one.over());
}

TEST(patience, once_over_stays_so) {
  std::atomic<bool> stop{true};
  const patience wait{options{.stop = &stop}};
  EXPECT_TRUE(wait.over(0));
  stop = false;
  EXPECT_TRUE(wait.over(0));
}

// Whenever the wait ends, what comes out is true: a plan that verify() accepts, or none; infeasible only if it is.
RC_GTEST_PROP(patience, may_end_anywhere, ()) {
  const auto p = generate::random_problem({.most_buffers = 12, .most_memories = 3, .slabs = generate::one_in(3)});
  RC_PRE(p.has_value());
  const auto work = *rc::gen::element(effort::fast, effort::normal);
  const options o{.work = work, .node_limit = 2000};
  const patience wait = patience::of_looks(*rc::gen::element<std::uint64_t>(0, 100, 5000, 20'000, 100'000));
  const auto cut = solve_within(*p, o, wait);
  RC_ASSERT(cut);
  RC_ASSERT(cut->deadline_hit == wait.was_over());
  const auto whole = solve(*p, o);
  RC_ASSERT(whole);
  if (cut->has_offsets()) RC_ASSERT(!verify(*p, *cut));
  if (cut->status == status::infeasible) RC_ASSERT(!whole->has_offsets());
  if (whole->status == status::infeasible) RC_ASSERT(!cut->has_offsets());
  if (cut->has_offsets() && whole->has_offsets() && p->memories.size() < 2) {
    RC_ASSERT(cut->lower_bound() <= whole->arena());
  }
}

TEST(patience, that_ends_among_separations_or_penalties_ends_their_verification) {
  problem separated = chain(dense_set(2000, 1000)), paid = separated;
  separated.separations.assign(500'000, {0, 1});
  paid.reuse_penalties.assign(500'000, {0, 1, 1});
  const auto answer = solve(chain(dense_set(2000, 1000)), {.work = effort::fast});
  ASSERT_TRUE(answer);
  for (const problem& p : {separated, paid}) {
    const patience wait = patience::of_looks(500'000);
    EXPECT_FALSE(verify_within(p, *answer, wait));
    EXPECT_TRUE(wait.was_over());
  }
}

}  // namespace
}  // namespace berth::plan
