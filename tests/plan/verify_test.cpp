#include "berth/plan/verify.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>

#include "berth/plan/solve.hpp"
#include "plan/brute_force.hpp"
#include "plan/generate.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

// x [0,2) at 0..4, y [1,3) at 4..10, z [2,4) at 0..4.
problem three_buffers() {
  problem p;
  p.add({.name = "x", .size = 4, .live = {0, 2}});
  p.add({.name = "y", .size = 6, .live = {1, 3}});
  p.add({.name = "z", .size = 4, .live = {2, 4}});
  return p;
}

plan good_plan() {
  plan answer;
  answer.offsets = {0, 4, 0};
  answer.arena_bytes = answer.lower_bound_bytes = 10;
  answer.status = status::feasible;
  return answer;
}

std::string broken_rule(const problem& p, const plan& answer) {
  const auto found = verify(p, answer);
  return found ? found->rule : "";
}

TEST(verify, accepts_a_right_plan) {
  EXPECT_EQ(broken_rule(three_buffers(), good_plan()), "");
  EXPECT_EQ(broken_rule(problem{}, plan{.status = status::optimal}), "");
  problem empty_inside = three_buffers();
  empty_inside.add({.size = 0, .live = {0, 4}});
  plan answer = good_plan();
  answer.offsets.push_back(2);
  EXPECT_EQ(broken_rule(empty_inside, answer), "");
}

TEST(verify, shape) {
  const problem p = three_buffers();
  plan answer = good_plan();
  answer.status = status::infeasible;
  EXPECT_EQ(broken_rule(p, answer), "the plan has no offsets");
  answer = good_plan();
  answer.offsets.pop_back();
  EXPECT_EQ(broken_rule(p, answer), "the plan has not one offset a buffer");
  answer = good_plan();
  answer.memory_of = {0, 0, 1};
  EXPECT_EQ(broken_rule(p, answer), "a buffer is in a memory it may not live in");
  answer = good_plan();
  answer.slab_of = {0, 0, 1};
  EXPECT_EQ(broken_rule(p, answer), "a buffer is in a second slab of a memory that has one");
  answer = good_plan();
  answer.offsets[2] = max_bytes - 1;
  EXPECT_EQ(broken_rule(p, answer), "an offset exceeds 2^62 bytes");
}

TEST(verify, every_rule_of_one_buffer) {
  problem p = three_buffers();
  p.buffers[1].alignment = 8;
  auto found = verify(p, good_plan());
  ASSERT_TRUE(found);
  EXPECT_STREQ(found->rule, "an offset is not aligned");
  EXPECT_EQ(found->a, 1u);
  EXPECT_EQ(found->number, 4u);

  p = three_buffers();
  p.buffers[2].offset = 1;
  EXPECT_EQ(broken_rule(p, good_plan()), "a pinned buffer is not where its pin is");

  p = three_buffers();
  p.capacity = 9;
  EXPECT_EQ(broken_rule(p, good_plan()), "a buffer ends beyond the capacity");
  p.capacity = 10;
  EXPECT_EQ(broken_rule(p, good_plan()), "");

  p = three_buffers();
  p.max_slab = 9;
  EXPECT_EQ(broken_rule(p, good_plan()), "a buffer ends beyond the largest slab");

  p = three_buffers();
  p.memories.resize(1);
  p.memories[0].reserved = {{20, 30}, {9, 10}, {12, 13}};
  EXPECT_EQ(broken_rule(p, good_plan()), "a buffer lies in a reserved range");
  p.memories[0].reserved = {{10, 12}};
  EXPECT_EQ(broken_rule(p, good_plan()), "");
  p.memories[0].alignment = 8;
  EXPECT_EQ(broken_rule(p, good_plan()), "an offset is not aligned as its memory asks");
}

TEST(verify, overlaps_in_time_and_place) {
  const problem p = three_buffers();
  plan answer = good_plan();
  answer.offsets = {0, 3, 0};
  answer.arena_bytes = 9;
  const auto found = verify(p, answer);
  ASSERT_TRUE(found);
  EXPECT_STREQ(found->rule, "two buffers overlap in time and place");
  EXPECT_EQ(found->a, 1u);
  EXPECT_EQ(found->b, 0u);
  answer = good_plan();
  answer.lower_bound_bytes = 9;
  answer.offsets[2] = 5;
  EXPECT_EQ(broken_rule(p, answer), "two buffers overlap in time and place");
}

TEST(verify, a_group_is_as_long_as_its_longest_member_alive) {
  problem p;
  p.add({.size = 2, .live = {0, 4}, .alias_group = 0});
  p.add({.size = 10, .live = {1, 4}, .alias_group = 0});
  p.add({.size = 4, .live = {2, 3}});
  plan answer{.offsets = {0, 0, 5}, .arena_bytes = 10, .status = status::feasible};
  EXPECT_EQ(broken_rule(p, answer), "two buffers overlap in time and place");
  p.buffers[1].live = {1, 2};  // its end comes before the third buffer
  EXPECT_EQ(broken_rule(p, answer), "");
  p.buffers[1].live = {2, 4};
  EXPECT_EQ(broken_rule(p, answer), "two buffers overlap in time and place");
}

TEST(verify, members_of_a_group_are_compared_however_far_apart) {
  problem p;
  for (tick t = 0; t < 3000; ++t) p.add({.size = 1, .live = {t, t + 1}});
  p.buffers[0].alias_group = p.buffers[2999].alias_group = 0;
  plan answer{.offsets = std::vector<bytes>(3000, 0), .arena_bytes = 2, .status = status::feasible};
  answer.offsets[2999] = 1;
  EXPECT_EQ(broken_rule(p, answer), "two members of an alias group have not one base");
}

bool share_a_tick(const buffer& a, const buffer& b) {
  return a.live.lower < b.live.upper && b.live.lower < a.live.upper;
}

// Groups come and go, grow and shrink, beside each other; the oracle looks at all pairs.
RC_GTEST_PROP(verify, groups_agree_with_all_pairs, ()) {
  const auto below = [](int most) { return *rc::gen::inRange(0, most); };
  for (int round = 0; round < 40; ++round) {
    problem p;
    plan answer{.status = status::feasible};
    const bytes bases[] = {0, 8, 14};
    const int count = 3 + below(6);
    for (int i = 0; i < count; ++i) {
      const tick start = below(8);
      const index group = static_cast<index>(below(4));
      buffer b{.size = static_cast<bytes>(1 + below(9)), .live = {start, start + 1 + below(5)}};
      if (group < 3) b.alias_group = group;
      answer.offsets.push_back(group < 3 ? bases[group] : static_cast<bytes>(below(20)));
      answer.arena_bytes = std::max(answer.arena_bytes, answer.offsets.back() + b.size);
      p.add(b);
    }
    RC_PRE(validate(p));
    bool apart = true;
    for (index i = 0; i < p.buffers.size(); ++i) {
      for (index k = 0; k < i; ++k) {
        const buffer &a = p.buffers[i], &b = p.buffers[k];
        if ((a.alias_group && a.alias_group == b.alias_group) || !share_a_tick(a, b)) continue;
        apart &= answer.offsets[i] + a.size <= answer.offsets[k] || answer.offsets[k] + b.size <= answer.offsets[i];
      }
    }
    RC_ASSERT(broken_rule(p, answer) == (apart ? "" : "two buffers overlap in time and place"));
  }
}

// More than are looked at one by one.
TEST(verify, thousands_alive_together) {
  problem p;
  plan answer;
  for (index i = 0; i < 3000; ++i) {
    p.add({.size = 8, .live = {0, 1 + i % 7}});
    answer.offsets.push_back(8 * i);
  }
  answer.arena_bytes = 24'000;
  answer.status = status::feasible;
  EXPECT_EQ(broken_rule(p, answer), "");
  answer.offsets[2990] += 4;
  EXPECT_EQ(broken_rule(p, answer), "two buffers overlap in time and place");
}

// Each memory looks at its own buffers alone.
TEST(verify, as_many_memories_with_reserved_ranges_as_buffers) {
  constexpr index many = 20'000;
  problem p;
  plan answer;
  answer.status = status::feasible;
  for (index i = 0; i < many; ++i) {
    p.memories.push_back({.reserved = {{0, 8}}});
    p.add({.size = 8, .live = {0, 1}});
    answer.offsets.push_back(8);
    answer.memory_of.push_back(i);
  }
  answer.arena_bytes = many * 16;
  const patience wait;
  EXPECT_FALSE(verify_within(p, answer, wait));
  EXPECT_LE(wait.looks(), 100 * many);
  answer.offsets[many - 1] = 4;
  EXPECT_EQ(broken_rule(p, answer), "a buffer lies in a reserved range");
}

TEST(verify, gaps_groups_conflicts_and_separations) {
  problem p = three_buffers();
  p.buffers[1].lifetimes = {{1, 2}, {3, 4}};
  p.buffers[2].lifetimes = {{0, 1}, {2, 3}};
  plan answer = good_plan();
  answer.lower_bound_bytes = 0;
  answer.offsets[2] = 4;  // z in the gaps of y; next to x while both live
  EXPECT_EQ(broken_rule(p, answer), "");
  p.separations = {{1, 2}};
  EXPECT_EQ(broken_rule(p, answer), "two separated buffers share bytes");

  p = three_buffers();
  p.buffers[0].alias_group = p.buffers[1].alias_group = 2;
  EXPECT_EQ(broken_rule(p, good_plan()), "two members of an alias group have not one base");
  answer = good_plan();
  answer.offsets = {0, 0, 6};
  EXPECT_EQ(broken_rule(p, answer), "");
  answer.offsets = {0, 0, 4};  // under y, although x has gone
  EXPECT_EQ(broken_rule(p, answer), "two buffers overlap in time and place");

  p = three_buffers();
  p.conflicts.emplace().push_back({0, 2});
  EXPECT_EQ(broken_rule(p, good_plan()), "two buffers that conflict share bytes");
}

TEST(verify, what_a_plan_says_of_itself) {
  problem p = three_buffers();
  plan answer = good_plan();
  answer.arena_bytes = 11;
  EXPECT_EQ(broken_rule(p, answer), "the arena is not what the plan says");
  answer = good_plan();
  answer.lower_bound_bytes = 11;
  EXPECT_EQ(broken_rule(p, answer), "the plan's lower bound is above its arena");
  answer = good_plan();
  answer.status = status::optimal;
  EXPECT_EQ(broken_rule(p, answer), "");
  answer.lower_bound_bytes = 9;
  EXPECT_EQ(broken_rule(p, answer), "the plan says it is optimal, and its lower bound is below its arena");
  p.reuse_penalties = {{0, 2, 2.5}};
  EXPECT_EQ(broken_rule(p, good_plan()), "the reuse penalty is not what the plan says");
  answer = good_plan();
  answer.reuse_penalty = 2.5;
  EXPECT_EQ(broken_rule(p, answer), "");
}

TEST(verify, a_plan_has_only_what_its_problem_asks_for) {
  const problem p = three_buffers();
  plan answer = good_plan();
  answer.stays = {{.buffer = 0, .live = {0, 2}}};
  EXPECT_EQ(broken_rule(p, answer), "the plan has stays or moves, and the problem no uses, steps or links");
  answer = good_plan();
  answer.moves = {{}};
  EXPECT_EQ(broken_rule(p, answer), "the plan has stays or moves, and the problem no uses, steps or links");
  answer = good_plan();
  answer.order = {0, 1, 2};
  EXPECT_EQ(broken_rule(p, answer), "the plan has an order, and the problem no dimensions");
}

TEST(verify, a_cost_is_the_sum_of_bytes_by_their_memories) {
  problem p = three_buffers();
  p.memories = {{.cost = 0.5}, {.cost = 2}};
  plan answer = good_plan();
  answer.memory_of = {0, 1, 1};
  answer.offsets = {0, 0, 6};
  answer.arena_bytes = 14;
  EXPECT_EQ(broken_rule(p, answer), "") << "a plan need not say what it costs";
  answer.cost = answer.cost_bound = 22;
  EXPECT_EQ(broken_rule(p, answer), "");
  answer.cost = 21;
  EXPECT_EQ(broken_rule(p, answer), "the cost is not what the plan says");
  answer.cost = 22;
  answer.cost_bound = 23;
  EXPECT_EQ(broken_rule(p, answer), "the plan costs less than its bound");
  answer.cost_bound = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(broken_rule(p, answer), "the plan costs less than its bound");
  p.memories.pop_back();
  EXPECT_EQ(solve(p)->cost, 7);
  EXPECT_EQ(solve(p)->cost_bound, 7);
}

TEST(verify, memories_and_slabs_are_apart) {
  problem p = three_buffers();
  p.memories.resize(2);
  p.memories[1].capacity = 4;
  plan answer = good_plan();
  answer.offsets = {0, 0, 0};
  EXPECT_EQ(broken_rule(p, answer), "the plan does not say which memory");
  answer.memory_of = {1, 0, 1};
  EXPECT_EQ(broken_rule(p, answer), "");
  answer.memory_of = {1, 1, 0};
  EXPECT_EQ(broken_rule(p, answer), "a buffer ends beyond the capacity");
  p.buffers[0].memories = {0};
  answer.memory_of = {1, 0, 1};
  EXPECT_EQ(broken_rule(p, answer), "a buffer is in a memory it may not live in");

  p = three_buffers();
  p.max_slab = 6;
  answer.memory_of.clear();
  answer.slab_of = {1, 0, 1};
  EXPECT_EQ(broken_rule(p, answer), "");
  p.capacity = 9;  // of both slabs together
  EXPECT_EQ(broken_rule(p, answer), "a buffer ends beyond the capacity");
}

// Lays the problem's buffers anywhere, one after the other, and keeps some of the rules by luck. A call of verify()
// must agree with the pairwise oracle on all of it.
RC_GTEST_PROP(verify, agrees_with_the_pairwise_oracle, ()) {
  for (int round = 0; round < 20; ++round) {
    generate::shape shape{.most_buffers = 5, .most_memories = 1 + generate::upto(1), .most_size = 5, .most_ticks = 5};
    shape.slabs = generate::one_in(4);
    const auto made = generate::random_problem(shape);
    if (!made) continue;
    const problem& p = *made;
    plan answer;
    answer.status = status::feasible;
    for (index i = 0; i < p.buffers.size(); ++i) {
      bytes offset = *rc::gen::inRange<bytes>(0, 12);
      if (!generate::one_in(4)) offset = align_down(offset, p.alignment_of(i));
      if (p.buffers[i].offset && !generate::one_in(3)) offset = *p.buffers[i].offset;
      answer.offsets.push_back(offset);
      if (p.memories.size() > 1) answer.memory_of.push_back(static_cast<index>(generate::upto(1)));
      if (p.max_slab) answer.slab_of.push_back(static_cast<index>(generate::upto(1)));
      const auto group = p.buffers[i].alias_group;
      for (index j = 0; j < i; ++j) {
        if (!group || p.buffers[j].alias_group != group) continue;
        answer.offsets[i] = answer.offsets[j];
        if (!answer.memory_of.empty()) answer.memory_of[i] = answer.memory_of[j];
        if (!answer.slab_of.empty()) answer.slab_of[i] = answer.slab_of[j];
      }
    }
    const auto spots = brute_force::spots_of(p, answer);
    answer.arena_bytes = brute_force::arena(p, spots);
    answer.reuse_penalty = brute_force::penalty(p, spots);
    const std::string rule = broken_rule(p, answer);
    RC_LOG() << "verify says: " << rule << std::endl;
    RC_ASSERT(rule.empty() == brute_force::accepts(p, answer));
  }
}

// A pile of buffers over a few hundred ticks is right by construction; moving one of them into another is not.
RC_GTEST_PROP(verify, rejects_a_moved_buffer, ()) {
  problem p;
  plan answer;
  answer.status = status::feasible;
  const bool dense = generate::one_in(2);
  for (int level = 0; level < 20; ++level) {
    tick t = 0;
    for (int k = 0; k < 10; ++k) {
      const tick length = *rc::gen::inRange<tick>(1, dense ? 5 : 100000);
      p.add({.size = 10, .live = {t, t + length}});
      answer.offsets.push_back(static_cast<bytes>(level) * 10);
      t += length;
    }
  }
  answer.arena_bytes = 200;
  RC_ASSERT(!verify(p, answer));
  const auto moved = static_cast<index>(generate::upto(199));
  const bytes to = *rc::gen::inRange<bytes>(0, 190);
  answer.offsets[moved] = to;
  answer.arena_bytes = brute_force::arena(p, brute_force::spots_of(p, answer));
  RC_ASSERT(verify(p, answer).has_value() == !brute_force::accepts(p, answer));
}
}  // namespace
}  // namespace berth::plan
