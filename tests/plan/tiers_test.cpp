#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <random>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/brute_force.hpp"
#include "plan/first_memory.hpp"
#include "plan/generate.hpp"
#include "plan/model/within.hpp"

namespace berth::plan {
namespace {

// Solves with memories chosen by use.
result<plan> solve_tiers(const problem& p, std::span<const double> touched) {
  return solve_within(p, {}, {}, touched);
}

// A chain of tensors through a fast memory that holds one large or two small of them.
TEST(tiers, the_most_used_bytes_are_fast) {
  problem p;
  p.memories = {{.name = "fast", .capacity = 10}, {.name = "slow", .cost = 1}};
  p.add({.size = 10, .live = {0, 2}});
  p.add({.size = 5, .live = {1, 3}});
  p.add({.size = 5, .live = {1, 3}});
  const double once[] = {10, 5, 5}, often[] = {10, 50, 5};
  const auto even = solve_tiers(p, once);
  EXPECT_EQ(even->cost, 10);
  EXPECT_EQ(even->cost_bound, 10);
  const auto skewed = solve_tiers(p, often);
  EXPECT_EQ(skewed->cost, 10);
  EXPECT_EQ(skewed->memory_of, (std::vector<index>{1, 0, 0}));
}

// Sums of live bytes that fit do not by address, and of hundreds of buffers no assignment is ever the right one.
TEST(tiers, a_slow_memory_without_end_takes_what_the_fast_one_cannot) {
  std::mt19937 random(7);
  for (const unsigned buffers : {60U, 250U}) {
    problem p;
    p.memories = {{.name = "fast", .capacity = bytes{1500}}, {.name = "slow", .cost = 1}};
    std::vector<double> touched;
    for (unsigned i = 0; i < buffers; ++i) {
      const auto lower = static_cast<tick>(random() % (buffers / 4));
      p.add({.size = 1 + random() % 200, .live = {lower, lower + 1 + static_cast<tick>(random() % 12)}});
      touched.push_back(static_cast<double>(p.buffers.back().size));
    }
    const auto got = solve_tiers(p, touched);
    ASSERT_TRUE(got->has_offsets()) << got->reason;
    EXPECT_EQ(verify(p, *got), std::nullopt);
    EXPECT_LE(got->cost, first_memory::cost(p));
  }
}

// Not every memory is tried for very many buffers.
TEST(tiers, one_without_end_is_tried_however_many_are_full) {
  problem p;
  for (int m = 0; m < 40; ++m) p.memories.push_back({.name = "m", .capacity = 64, .cost = static_cast<double>(m)});
  p.memories.push_back({.name = "last", .cost = 100});
  for (index i = 0; i < 40'000; ++i) p.add({.size = 64, .live = {0, 1}});
  const auto got = solve(p, {.work = effort::fast});
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->has_offsets()) << got->reason;
  EXPECT_FALSE(verify(p, *got));
}

TEST(tiers, a_memory_of_slabs_that_takes_too_little_is_left_to_others) {
  std::mt19937 random(3);
  problem p;
  p.max_slab = 300;
  p.memories = {{.name = "fast", .capacity = bytes{600}}, {.name = "slow", .cost = 1}};
  std::vector<double> touched;
  for (unsigned i = 0; i < 150; ++i) {
    const auto lower = static_cast<tick>(random() % 60);
    p.add({.size = 1 + random() % 200, .live = {lower, lower + 1 + static_cast<tick>(random() % 6)}});
    touched.push_back(static_cast<double>(p.buffers.back().size));
  }
  const auto got = solve_tiers(p, touched);
  ASSERT_TRUE(got->has_offsets()) << got->reason;
  EXPECT_EQ(verify(p, *got), std::nullopt);
  EXPECT_LE(got->cost, first_memory::cost(p)) << "which knows no slabs";
}

// Found by the fuzz target of the planner.
TEST(tiers, a_bound_of_one_memory_whose_pins_clash_is_proved) {
  problem p;
  p.memories = {{.name = "only", .capacity = bytes{19}}};
  for (const bytes at : {12, 11, 15}) p.add({.size = 10, .live = {0, 5}, .offset = at});
  p.add({.size = 20, .live = {0, 5}});
  const auto got = solve_tiers(p, std::vector<double>(4, 1.0));
  EXPECT_EQ(got->status, status::infeasible);
  EXPECT_EQ(got->lower_bound(), 50);
  EXPECT_EQ(verify_bound(p, 0, got->proof), std::nullopt);
}

double cost_of(const problem& p, const std::vector<double>& touched, const std::vector<brute_force::spot>& spots) {
  double sum = 0;
  for (index i = 0; i < spots.size(); ++i) sum += touched[i] * p.memories[spots[i].memory].cost;
  return sum;
}

RC_GTEST_PROP(tiers, agrees_with_the_exhaustive_oracle, ()) {
  for (int round = 0; round < 5; ++round) {
    auto made = generate::random_problem(
        {.most_buffers = 4, .most_memories = 2, .most_size = 4, .most_ticks = 5, .explicit_conflicts = false});
    if (!made || made->memories.empty()) continue;
    std::vector<double> touched;
    for (const buffer& b : made->buffers) touched.push_back(static_cast<double>(b.size * (1 + generate::upto(2))));
    double best = std::numeric_limits<double>::infinity();
    brute_force::for_each_layout(*made, [&](const std::vector<brute_force::spot>& spots) {
      best = std::min(best, cost_of(*made, touched, spots));
    });
    const plan answer = *solve_tiers(*made, touched);
    if (!answer.has_offsets()) {
      RC_ASSERT(answer.status == status::unknown || !std::isfinite(best));
      continue;
    }
    const auto spots = brute_force::spots_of(*made, answer);
    RC_ASSERT(brute_force::allowed(*made, spots));
    RC_ASSERT(cost_of(*made, touched, spots) == answer.cost);
    RC_ASSERT(answer.cost >= best);
    RC_ASSERT(answer.cost_bound <= best);
    if (answer.cost_bound == answer.cost) RC_ASSERT(answer.cost == best);
  }
}

}  // namespace
}  // namespace berth::plan
