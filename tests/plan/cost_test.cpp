// Costs of problems made to hurt: the most that the heap holds, and the looks that the stages count.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "berth/plan/verify.hpp"
#include "plan/dense_set.hpp"
#include "plan/model/conflicts.hpp"
#include "plan/model/within.hpp"
#include "plan/verify/within.hpp"

namespace {

std::atomic<std::size_t> held{0};
std::atomic<std::size_t> most_held{0};

constexpr std::size_t front = alignof(std::max_align_t);

}  // namespace

// Each block begins with its size.
void* operator new(std::size_t size) {
  void* const block = std::malloc(size + front);
  if (block == nullptr) throw std::bad_alloc{};
  *static_cast<std::size_t*>(block) = size;
  const std::size_t now = held.fetch_add(size) + size;
  for (std::size_t most = most_held; most < now && !most_held.compare_exchange_weak(most, now);) {
  }
  return static_cast<char*>(block) + front;
}
// The sanitizers' own would not call the one above.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  void* const block = static_cast<char*>(p) - front;
  held -= *static_cast<std::size_t*>(block);
  std::free(block);
}
void operator delete(void* p, std::size_t) noexcept {
  ::operator delete(p);
}

namespace berth::plan {
namespace {

constexpr std::size_t megabyte = 1'000'000;

struct cost {
  plan answer;
  std::uint64_t looks = 0;
  std::size_t peak = 0;  // bytes of the heap, beside what was held before
};

cost solved(const problem& p, effort work) {
  const std::size_t before = held;
  most_held = before;
  const patience wait;
  auto answer = solve_within(p, {.work = work}, wait);
  EXPECT_TRUE(answer && answer->has_offsets());
  cost out{.looks = wait.looks(), .peak = most_held - before};
  if (answer) out.answer = std::move(*answer);
  return out;
}

// 6,000 buffers that are all alive together, 18 million pairs, beside a hundred that are hard to lay.
TEST(cost, memory_is_bounded_where_all_is_alive_together) {
  problem p = dense_set(100, 20);
  numbers from{1};
  for (int i = 0; i < 6000; ++i) p.add({.size = 1 + from.below(1 << 10), .live = {1000, 1001}});
  const cost got = solved(p, effort::best);
  EXPECT_LE(got.peak, 250 * megabyte);
}

TEST(cost, conflict_pairs_are_counted_before_they_are_made) {
  for (const tick alive : {2, 30, 400}) {
    problem p = dense_set(500, alive);
    p.buffers[3].lifetimes = {{2, 5}, {7, 9}};
    p.separations = {{1, 400}, {2, 3}};
    const instance in = make_instance(p);
    const conflict_count count = count_conflicts(in);
    const std::size_t made = make_conflicts(in).conflicts.size() / 2;
    EXPECT_GE(count.pairs, made);
    EXPECT_LE(count.pairs, made + 100);
  }
}

TEST(cost, of_explicit_conflicts_is_no_more_than_some_looks_for_each) {
  problem p = dense_set(1000, 1);
  p.conflicts.emplace();
  for (index a = 0; a < p.buffers.size(); ++a) {
    for (index b = 0; b < a; ++b) p.conflicts->push_back({b, a});
  }
  const cost got = solved(p, effort::normal);
  EXPECT_TRUE(got.answer.optimal()) << "all in conflict: one clique";
  EXPECT_LE(got.looks, 100 * p.conflicts->size());
  EXPECT_LE(got.peak, 500 * p.conflicts->size());
}

TEST(cost, of_effort_fast_is_bounded_a_buffer_whatever_is_alive) {
  for (const bool pinned : {false, true}) {  // with a pin there is no sweep over all
    problem p = dense_set(8000, 4000);
    if (pinned) p.buffers[5].offset = 1 << 20;
    const cost got = solved(p, effort::fast);
    EXPECT_LE(got.looks, 600 * p.buffers.size());
    EXPECT_LE(static_cast<double>(got.answer.arena()), 1.25 * static_cast<double>(got.answer.lower_bound()));
  }
}

// A square of them would take minutes.
TEST(cost, of_many_lifetimes_of_one_buffer_or_group_is_no_square_of_them) {
  constexpr tick lives = 300'000;
  problem one;
  one.add({.size = 64});
  one.add({.size = 32, .live = {0, 2 * lives}});
  for (tick t = 0; t < lives; ++t) one.buffers[0].lifetimes.push_back({2 * t, 2 * t + 1});
  EXPECT_EQ(solved(one, effort::normal).answer.arena(), 96);
  problem group;
  for (tick t = 0; t < lives; ++t) {
    group.add({.size = 64 + static_cast<bytes>(t % 7), .live = {3 * t, 3 * t + 5}, .alias_group = 0});
  }
  EXPECT_EQ(solved(group, effort::normal).answer.arena(), 70);
}

TEST(cost, of_many_pins_is_no_square_of_them) {
  problem p;
  for (index i = 0; i < 20'000; ++i) p.add({.size = 64, .live = {0, 10}, .offset = bytes{i} * 128});
  for (const buffer& b : dense_set(100, 5).buffers) p.add({.size = b.size >> 8, .live = {b.live.lower % 9, 10}});
  const cost got = solved(p, effort::normal);
  EXPECT_LE(got.looks, 100'000'000u);
  p.buffers[19'999].offset = 128 * 7 + 1;
  const auto clash = solve(p);
  ASSERT_TRUE(clash);
  EXPECT_EQ(clash->status, status::infeasible);
  EXPECT_EQ(clash->culprit, 19'999u);
}

// A table of sums for every hole would take minutes.
TEST(cost, of_holes_between_many_pins_is_no_product_of_them_and_the_rest) {
  problem p;
  numbers from{1};
  for (index i = 0; i < 20'000; ++i) p.add({.size = 1, .live = {0, 1}, .offset = bytes{i} * 4000});
  for (index i = 0; i < 20'000; ++i) p.add({.size = 1 + from.below(3000), .live = {0, 1}});
  const cost got = solved(p, effort::fast);
  EXPECT_FALSE(verify_bound(p, got.answer.lower_bound(), got.answer.proof));
}

TEST(cost, of_reserved_ranges_beside_explicit_conflicts_is_no_product_of_them_and_the_buffers) {
  constexpr index many = 3000;
  problem p = dense_set(many, 1);
  p.memories.resize(1);
  for (index i = 0; i < many; ++i) p.memories[0].reserved.push_back({bytes{i} << 20, (bytes{i} << 20) + 1});
  p.conflicts.emplace();
  for (index i = 1; i < many; ++i) p.conflicts->push_back({i - 1, i});
  EXPECT_LE(solved(p, effort::fast).peak, 50 * megabyte);
}

// Each pair tried in every hole would take minutes.
TEST(cost, of_pairs_beside_many_reserved_ranges_is_bounded) {
  constexpr index many = 20'000;
  problem p;
  p.memories.resize(1);
  for (index i = 0; i < many; ++i) p.memories[0].reserved.push_back({bytes{i} * 4 + 1, bytes{i} * 4 + 2});
  for (index i = 0; i < many; ++i) p.add({.size = 4});
  p.conflicts.emplace();
  for (index i = 1; i < many; ++i) p.conflicts->push_back({i - 1, i});
  EXPECT_LE(solved(p, effort::fast).looks, 100'000'000u);
}

// The check gives up at as many reserved ranges as the planner does in its search for how low a buffer can lie.
TEST(cost, of_the_check_of_a_bound_beside_many_reserved_ranges_is_no_product_of_them_and_the_buffers) {
  constexpr index many = 20'000;
  problem p;
  p.memories.resize(1);
  for (index i = 0; i < many; ++i) p.memories[0].reserved.push_back({bytes{i} * 2, bytes{i} * 2 + 1});
  for (index i = 0; i < many; ++i) p.add({.size = 2, .live = {0, 1}});
  const plan answer = solved(p, effort::fast).answer;
  EXPECT_TRUE(answer.optimal());
  const patience wait;
  EXPECT_FALSE(verify_bound_within(p, answer.lower_bound(), answer.proof, wait));
  EXPECT_LE(wait.looks(), 100 * many);
}

// Heights that never change are not kept by tick.
TEST(cost, of_pinned_buffers_in_plans_with_moves_is_no_square_of_them) {
  problem p;
  p.memories = {{.name = "fast"}, {.name = "slow", .cost = 1}};
  p.links = {{.from = 1, .to = 0}};
  for (index i = 0; i < 5000; ++i) {
    p.add({.size = 64, .live = {0, 20'000}, .offset = bytes{i} * 64, .uses = {{.at = 3 * tick{i}, .touched = 10}}});
  }
  const std::size_t before = held;
  most_held = before;
  const auto answer = solve(p, {.work = effort::fast});
  ASSERT_TRUE(answer && answer->has_offsets());
  EXPECT_EQ(answer->cost, 0);
  EXPECT_LE(most_held - before, 50 * megabyte);
}

// Ticks that are far apart have one period for each memory between them.
TEST(cost, of_moves_among_many_memories_is_bounded) {
  problem p;
  for (int m = 0; m < 200; ++m) p.memories.push_back({.capacity = 100, .cost = 1.0 + m});
  p.links = {{.from = 1, .to = 0}};
  for (tick i = 0; i < 3000; ++i) {
    p.add({.size = 60, .live = {1000 * i, 1000 * i + 1500}, .uses = {{.at = 1000 * i, .touched = 10}}});
  }
  const std::size_t before = held;
  most_held = before;
  const auto answer = solve(p, {.work = effort::fast});
  ASSERT_TRUE(answer && answer->has_offsets());
  EXPECT_TRUE(answer->moves.empty());
  EXPECT_EQ(answer->cost, *answer->unmoved);
  EXPECT_EQ(answer->cost_bound, 30'000) << "each in the cheapest";
  EXPECT_LE(most_held - before, 300 * megabyte);
  p.buffers[7].uses = {{.at = 7000, .memory = 0}, {.at = 7001, .memory = 1}};  // a plan without moves there is not
  const auto none = solve(p, {.work = effort::fast});
  ASSERT_TRUE(none);
  EXPECT_EQ(none->reason, "there are too many memories and ticks to look for moves");
}

}  // namespace
}  // namespace berth::plan
