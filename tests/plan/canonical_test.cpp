// One plan for every permutation of a problem.
#include "plan/model/canonical.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/dense_set.hpp"
#include "plan/generate.hpp"
#include "plan/model/within.hpp"

namespace berth::plan {
namespace {

// The same problem in another order; `at` says by buffer where it was.
problem permuted(const problem& p, numbers& from, std::vector<index>& at) {
  at.resize(p.buffers.size());
  std::iota(at.begin(), at.end(), 0U);
  for (std::size_t k = at.size(); k > 1; --k) std::swap(at[k - 1], at[from.below(k)]);
  std::vector<index> now(at.size());
  for (index k = 0; k < at.size(); ++k) now[at[k]] = k;
  problem out = p;
  for (index k = 0; k < at.size(); ++k) out.buffers[k] = p.buffers[at[k]];
  const auto rename = [&](auto& pairs) {
    for (auto& c : pairs) {
      c.a = now[c.a];
      c.b = now[c.b];
      if (from.below(2) == 0) std::swap(c.a, c.b);
    }
    std::reverse(pairs.begin(), pairs.end());
  };
  if (out.conflicts) rename(*out.conflicts);
  rename(out.separations);
  rename(out.reuse_penalties);
  return out;
}

void name_all(problem& p) {
  for (index i = 0; i < p.buffers.size(); ++i) p.buffers[i].name = std::to_string(i);
}

problem dense(std::uint64_t seed, std::uint32_t n) {
  numbers from{seed};
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto lower = static_cast<tick>(from.below(n));
    p.add({.size = 1 + from.below(400), .live = {lower, lower + 1 + static_cast<tick>(from.below(n / 2))}});
  }
  name_all(p);
  return p;
}

}  // namespace

// Plain lifetimes, no relations.
TEST(canonical, a_permutation_has_the_same_plan_at_every_effort) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const problem p = dense(seed, 60);
    numbers from{seed + 10};
    for (const effort work : {effort::fast, effort::normal}) {
      const options o{.work = work, .node_limit = work == effort::fast ? 0U : 300U};
      const plan first = *solve(p, o);
      for (int k = 0; k < 4; ++k) {
        std::vector<index> at;
        const problem q = permuted(p, from, at);
        const plan other = *solve(q, o);
        ASSERT_EQ(other.arena(), first.arena());
        for (index i = 0; i < at.size(); ++i) ASSERT_EQ(other.offset(i), first.offset(at[i])) << "seed " << seed;
      }
    }
  }
}

// Every constraint of one memory; the proofs name the caller's buffers.
RC_GTEST_PROP(canonical, a_permutation_has_the_same_plan_under_every_constraint, ()) {
  auto made = generate::random_problem({.most_buffers = 12});
  RC_PRE(made.has_value());
  problem& p = *made;
  name_all(p);
  numbers from{*rc::gen::arbitrary<std::uint64_t>()};
  std::vector<index> at;
  const problem q = permuted(p, from, at);
  const effort work = *rc::gen::element(effort::fast, effort::normal);
  const plan first = *solve(p, {.work = work}), other = *solve(q, {.work = work});
  RC_ASSERT(first.status == other.status);
  if (!first.has_offsets()) return;
  RC_ASSERT(first.arena() == other.arena());
  RC_ASSERT(first.reuse_penalty == other.reuse_penalty);
  RC_ASSERT(!verify(q, other));
  RC_ASSERT(!verify_bound(q, 0, other.proof));
}

RC_GTEST_PROP(canonical, a_permutation_has_the_same_memories, ()) {
  auto made = generate::random_problem({.most_buffers = 8, .most_memories = 3, .slabs = true});
  RC_PRE(made.has_value());
  name_all(*made);
  numbers from{*rc::gen::arbitrary<std::uint64_t>()};
  std::vector<index> at;
  const problem q = permuted(*made, from, at);
  const plan first = *solve(*made), other = *solve(q);
  RC_ASSERT(first.status == other.status);
  if (!first.has_offsets()) return;
  RC_ASSERT(first.arena() == other.arena());
  RC_ASSERT(!verify(q, other));
}

// The order itself: applied to a permutation it gives one problem.
RC_GTEST_PROP(canonical, one_problem_comes_of_all_permutations, ()) {
  auto made = generate::random_problem({.most_buffers = 12});
  RC_PRE(made.has_value());
  name_all(*made);
  numbers from{*rc::gen::arbitrary<std::uint64_t>()};
  std::vector<index> at;
  const problem q = permuted(*made, from, at);
  const auto x = in_canonical_order(*made), y = in_canonical_order(q);
  const problem& one = x ? x->in_order : *made;
  const problem& two = y ? y->in_order : q;
  for (index i = 0; i < one.buffers.size(); ++i) {
    RC_ASSERT(one.footprint(i) == two.footprint(i));
    RC_ASSERT(one.buffers[i].offset == two.buffers[i].offset);
    if (!one.conflicts) RC_ASSERT(one.buffers[i].live == two.buffers[i].live);
  }
}

TEST(canonical, sorted_problems_are_not_copied) {
  problem p;
  for (tick t = 0; t < 10; ++t) p.add({.size = 8, .live = {t, t + 2}});
  EXPECT_FALSE(in_canonical_order(p));
  std::swap(p.buffers[3], p.buffers[4]);
  EXPECT_TRUE(in_canonical_order(p));
}

TEST(canonical, touched_bytes_follow_their_buffers) {
  problem p;
  p.memories = {{.name = "small", .capacity = 10, .cost = 1}, {.name = "large", .cost = 5}};
  p.add({.size = 10, .live = {4, 6}});
  p.add({.size = 10, .live = {0, 5}});
  const std::vector<double> touched{100, 1};
  const plan got = *solve_within(p, {}, {}, touched);
  EXPECT_EQ(got.memory_of, (std::vector<index>{0, 1}));
}

// The bound and culprit are named as the caller numbers buffers.
TEST(canonical, a_reason_names_the_callers_buffer) {
  problem p;
  p.capacity = 10;
  p.add({.size = 4, .live = {5, 9}});
  p.add({.size = 20, .live = {0, 3}});
  const plan got = *solve(p);
  EXPECT_EQ(got.status, status::infeasible);
  EXPECT_EQ(got.culprit, 1U);
}

former_places places_of(const plan& before) {
  return {.offsets = {before.offsets.begin(), before.offsets.end()}};
}

// A former plan that still holds is a candidate.
TEST(monotone, shrinking_one_buffer_never_raises_the_arena) {
  for (const std::uint64_t seed : {4U, 5U, 6U}) {
    const problem p = dense(seed, 80);
    const plan before = *solve(p, {.node_limit = 200});
    numbers from{seed};
    for (int k = 0; k < 6; ++k) {
      problem q = p;
      buffer& b = q.buffers[from.below(q.buffers.size())];
      b.size -= from.below(b.size);
      former_places old = places_of(before);
      EXPECT_LE(solve(q, {.node_limit = 200, .former = &old})->arena(), before.arena()) << "seed " << seed;
    }
  }
}

TEST(monotone, nothing_moves_for_less_than_the_tolerance) {
  problem p = dense(7, 80);
  const plan before = *solve(p, {.work = effort::fast});
  former_places old = places_of(before);
  const options keeping{.node_limit = 2000, .former = &old};
  old.tolerance = 1;
  const plan all = *solve(p, keeping);
  EXPECT_EQ(all.moved, 0U);
  EXPECT_EQ(all.arena(), before.arena());
  old.tolerance = 0;
  EXPECT_LE(solve(p, keeping)->arena(), all.arena());
  old.tolerance = -0.5;
  EXPECT_FALSE(solve(p, keeping));
}

// One buffer that grows moves a few others, not half of them.
TEST(monotone, a_buffer_that_grows_moves_few) {
  for (const std::uint64_t seed : {8U, 9U, 10U}) {
    problem p = dense(seed, 100);
    const plan before = *solve(p, {.node_limit = 2000});
    former_places old = places_of(before);
    p.buffers[50].size += 40;
    old.tolerance = 0.25;
    const plan now = *solve(p, {.node_limit = 2000, .former = &old});
    EXPECT_LE(now.moved, 10U) << "seed " << seed;
  }
}

}  // namespace berth::plan
