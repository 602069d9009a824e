#include "berth/plan/solve.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

#include "berth/plan/verify.hpp"
#include "plan/brute_force.hpp"
#include "plan/generate.hpp"

namespace berth::plan {
namespace {

plan solved(const problem& p, const options& o = {}) {
  const auto answer = solve(p, o);
  EXPECT_TRUE(answer) << answer.error().what;
  return *answer;
}

TEST(solve, says_what_is_invalid) {
  problem p;
  p.add({.name = "x", .size = 4, .live = {2, 2}});
  const auto answer = solve(p);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().number, 0u);
}

TEST(solve, nothing_needs_nothing) {
  const plan answer = solved(problem{});
  EXPECT_TRUE(answer.optimal());
  EXPECT_EQ(answer.arena(), 0u);
}

TEST(solve, infeasible_gives_no_offsets_and_a_reason) {
  problem p;
  p.add({.name = "x", .size = 4, .live = {0, 2}});
  p.add({.name = "y", .size = 4, .live = {1, 3}});
  p.capacity = 7;
  const plan answer = solved(p);
  EXPECT_EQ(answer.status, status::infeasible);
  EXPECT_TRUE(answer.offsets.empty());
  EXPECT_EQ(answer.lower_bound(), 8u);
  p.capacity = 3;
  p.buffers[1].size = 3;
  EXPECT_EQ(solved(p).reason, "buffer alone exceeds the capacity");
  EXPECT_EQ(solved(p).culprit, 0u);
  EXPECT_EQ(solved(p).number, 4u);
}

TEST(solve_death, offsets_of_an_infeasible_plan_are_a_broken_contract) {
  problem p;
  p.add({.name = "x", .size = 4, .live = {0, 2}});
  p.capacity = 3;
  const plan none = solved(p);
  EXPECT_DEATH((void)none.offset(0), "solve_test.cpp.*contract: plan: it has no offsets");
  p.capacity = 4;
  const plan one = solved(p);
  EXPECT_DEATH((void)one.offset(1), "contract: plan: no such buffer");
}

TEST(solve, empty_members_of_a_group_share_its_base) {
  problem p;
  p.add({.name = "x", .size = 4, .live = {0, 2}, .offset = 8, .alias_group = 0});
  p.add({.name = "y", .size = 0, .live = {0, 2}, .alias_group = 0});
  EXPECT_EQ(solved(p).offset(1), 8u);
}

TEST(solve, reserved_ranges_may_overlap_and_go_on_to_the_end_of_all_addresses) {
  problem p;
  p.memories = {{.name = "m", .reserved = {{5, 20}, {0, 10}, {0, 10}}}};
  p.add({.name = "x", .size = 4, .live = {0, 2}});
  p.add({.name = "y", .size = 4, .live = {1, 3}});
  EXPECT_EQ(solved(p).status, status::optimal);
  EXPECT_EQ(solved(p).arena(), 28u);
  p.memories[0].reserved = {{8, max_bytes}};
  EXPECT_EQ(solved(p).arena(), 8u);
  p.memories[0].reserved = {{7, max_bytes}};
  EXPECT_EQ(solved(p).status, status::infeasible);
}

// Up to 2^62 they are alignments as any other.
TEST(solve, alignments_may_be_as_large_as_addresses) {
  constexpr bytes size = bytes{1} << 41, alignment = (bytes{1} << 60) + size;
  problem p;
  p.add({.size = size, .live = {0, 1}, .alignment = alignment});
  p.add({.size = size, .live = {0, 1}, .alignment = alignment});
  p.separations = {{0, 1}};
  for (const effort work : {effort::fast, effort::normal}) {
    const plan answer = solved(p, {.work = work});
    EXPECT_TRUE(answer.optimal());
    EXPECT_EQ(answer.arena(), alignment + size);
  }
}

// A group's common multiple may be beyond all addresses; then it lies at 0.
TEST(solve, groups_whose_alignments_meet_at_0_only_lie_there) {
  constexpr bytes three = 3'486'784'401, five = 1'220'703'125;  // powers of 3 and 5; times 7 above 2^62
  problem p;
  p.memories = {{.alignment = 7}};
  p.add({.size = 7, .live = {0, 1}, .alignment = three, .alias_group = 0});
  p.add({.size = 7, .live = {0, 1}, .alignment = five, .alias_group = 0});
  p.add({.size = 7, .live = {0, 1}});
  for (const effort work : {effort::fast, effort::normal}) {
    const plan answer = solved(p, {.work = work});
    ASSERT_TRUE(answer.has_offsets()) << answer.reason;
    EXPECT_EQ(answer.offset(0), 0u);
    EXPECT_EQ(answer.arena(), 14u);
  }
  p.buffers[2].offset = 0;
  EXPECT_FALSE(solved(p).has_offsets());
}

TEST(solve, names_the_buffer_whose_pin_is_taken) {
  problem p;
  p.memories = {{.name = "m", .reserved = {{0, 10}}}};
  p.add({.name = "x", .size = 4, .live = {0, 2}});
  p.add({.name = "y", .size = 4, .live = {0, 2}, .offset = 8});
  EXPECT_EQ(solved(p).status, status::infeasible);
  EXPECT_EQ(solved(p).culprit, 1u);
  EXPECT_FALSE(verify_bound(p, max_bytes, solved(p).proof));
  p.memories.push_back({.name = "other"});
  for (buffer& b : p.buffers) b.memories = {0};
  EXPECT_EQ(solved(p).reason, "buffer is pinned where another one or a reserved range lies");
  EXPECT_EQ(solved(p).culprit, 1u);
  EXPECT_FALSE(verify_bound(p, max_bytes, solved(p).proof));
  p = {};
  for (const bytes at : {0, 6, 4}) p.add({.size = 4, .live = {0, 2}, .offset = at});
  p.buffers[0].alias_group = 0;  // its other member meets a pin
  p.add({.size = 5, .live = {1, 3}, .alias_group = 0});
  p.conflicts = {{1, 2}, {2, 3}};
  EXPECT_EQ(solved(p).status, status::infeasible);
  EXPECT_FALSE(verify_bound(p, max_bytes, solved(p).proof));
  p.conflicts = {{2, 3}};
  EXPECT_EQ(solved(p).status, status::infeasible);
  EXPECT_FALSE(verify_bound(p, max_bytes, solved(p).proof));
  p.conflicts.reset();
  p.buffers[2].offset = 10;
  p.capacity = 13;
  EXPECT_EQ(solved(p).reason, "buffer is pinned beyond the capacity");
  EXPECT_FALSE(verify_bound(p, 14, solved(p).proof));
}

// Fast memory first, as long as it lasts: TVM's two pools.
TEST(solve, prefers_the_first_memory) {
  problem p;
  p.memories = {{.name = "fast", .capacity = 10}, {.name = "slow"}};
  const index a = p.add({.size = 6, .live = {0, 2}});
  const index b = p.add({.size = 6, .live = {1, 3}});
  const index c = p.add({.size = 10, .live = {3, 4}});
  const plan answer = solved(p);
  EXPECT_NE(answer.memory_of[a], answer.memory_of[b]);
  EXPECT_EQ(answer.memory_of[c], 0u);
}

// Sums of live bytes see neither separations nor reserved ranges: of few units every assignment is tried by address.
TEST(solve, divides_among_memories_what_only_addresses_tell_apart) {
  problem p;
  p.memories = {{.name = "near", .capacity = 10}, {.name = "far", .capacity = 10, .reserved = {{4, 6}}}};
  for (tick t = 0; t < 4; ++t) p.add({.name = "x", .size = 5, .live = {t, t + 1}});
  for (const auto& [a, b] : {std::pair{0, 1}, {1, 2}, {2, 3}, {0, 2}, {0, 3}, {1, 3}}) {
    p.separations.push_back({static_cast<index>(a), static_cast<index>(b)});
  }
  EXPECT_EQ(solved(p).status, status::infeasible);  // two in the first, none in the second
  p.buffers[3].size = p.buffers[2].size = 4;
  const plan answer = solved(p);
  ASSERT_TRUE(answer.has_offsets());
  EXPECT_EQ(answer.memory_of, (std::vector<index>{0, 0, 1, 1}));
}

TEST(solve, weighs_memories_by_cost) {
  problem p;
  p.memories = {{.name = "slow", .cost = 10}, {.name = "fast", .capacity = 8, .cost = 1}};
  const index small = p.add({.size = 5, .live = {0, 2}});
  const index large = p.add({.size = 8, .live = {0, 2}});
  const plan answer = solved(p);
  EXPECT_EQ(answer.memory_of[small], 0u);
  EXPECT_EQ(answer.memory_of[large], 1u);
}

// A memory filled better may cost more in the end: seed 866 cost 6670 at effort normal and 5910 at fast.
TEST(solve, pays_for_memories_no_more_than_at_a_lower_effort) {
  for (const std::uint32_t seed : {1U, 2U, 3U, 866U}) {
    std::mt19937 random{seed};
    problem p;
    bytes total = 0;
    for (int i = 0; i < 20; ++i) {
      const auto lower = static_cast<tick>(random() % 20);
      const bytes size = (1 + random() % 7) << random() % 6;
      p.add({.size = size, .live = {lower, lower + 1 + static_cast<tick>(random() % 12)}});
      total += size;
    }
    const bytes small = total / (4 + random() % 8), middle = total / (4 + random() % 4);
    p.memories = {{.capacity = small, .cost = 1}, {.capacity = middle, .cost = 4}, {.cost = 20}};
    const auto cost = [&](const plan& answer) {
      double sum = 0;
      for (index i = 0; i < p.buffers.size(); ++i) {
        sum += p.memories[answer.memory_of[i]].cost * static_cast<double>(p.footprint(i));
      }
      return sum;
    };
    EXPECT_LE(cost(solved(p)), cost(solved(p, {.work = effort::fast}))) << seed;
  }
}

// Each of so many buffers is tried in some of so many memories: that these are full proves nothing.
TEST(solve, memories_that_were_not_tried_are_not_refuted) {
  constexpr index many = 31'300, memories = 40;
  problem p;
  p.memories.assign(memories, {.capacity = 100});
  for (tick t = 0; t < many; ++t) p.add({.size = 1, .live = {10 + t, 11 + t}, .memories = {0}});
  for (index m = 0; m + 1 < memories; ++m) p.add({.size = 100, .live = {0, 5}, .memories = {m}});
  p.add({.size = 50, .live = {0, 5}});
  EXPECT_NE(solved(p).status, status::infeasible);
}

TEST(solve, names_the_buffer_that_fits_no_memory) {
  problem p;
  p.memories = {{.name = "a", .capacity = 8}, {.name = "b", .capacity = 6}};
  p.add({.size = 8, .live = {0, 2}});
  p.add({.size = 9, .live = {3, 4}});
  const plan answer = solved(p);
  EXPECT_EQ(answer.status, status::infeasible);
  EXPECT_EQ(answer.reason, "buffer fits none of its memories");
  EXPECT_EQ(answer.culprit, 1u);
}

// It has no size that would keep it out; a plan that put it there was refused by verify().
TEST(solve, an_empty_buffer_pinned_beyond_the_end_of_a_slab_fits_none) {
  problem p;
  p.max_slab = 10;
  p.memories.resize(2);
  p.add({.size = 5, .live = {0, 1}});
  p.add({.size = 0, .live = {0, 1}, .offset = 20});
  p.add({.size = 9, .live = {0, 1}});
  for (const effort work : {effort::fast, effort::normal}) {
    const plan answer = solved(p, {.work = work});
    EXPECT_EQ(answer.status, status::infeasible);
    EXPECT_EQ(answer.reason, "buffer fits none of its memories");
    EXPECT_EQ(answer.culprit, 1u);
  }
  p.buffers[1].offset = 10;
  EXPECT_TRUE(solved(p, {.work = effort::fast}).has_offsets());
}

TEST(solve, the_largest_limit_of_nodes_is_one_that_is_not_met) {
  std::mt19937 random{3};
  problem p;
  for (int i = 0; i < 40; ++i) {
    const auto lower = static_cast<tick>(random() % 12);
    const bytes size = 1 + random() % 37;
    p.add({.size = size, .live = {lower, lower + 1 + static_cast<tick>(random() % 7)}});
  }
  const plan answer = solved(p, {.node_limit = ~std::uint64_t{0}});
  EXPECT_TRUE(answer.optimal());
  EXPECT_NE(answer.work, 0u) << "else it was found without a search";
}

TEST(solve, cuts_into_slabs) {
  problem p;
  p.max_slab = 50;
  for (const bytes size : {10, 30, 20, 40}) p.add({.size = size, .live = {0, 4}});
  const plan answer = solved(p);
  EXPECT_EQ(answer.arena(), 100u);
  EXPECT_TRUE(answer.optimal());
  EXPECT_EQ(*std::max_element(answer.slab_of.begin(), answer.slab_of.end()), 1u);

  problem aligned;
  aligned.alignment = 20;
  aligned.max_slab = 70;
  aligned.add({.size = 10, .live = {0, 3}});
  aligned.add({.size = 20, .live = {1, 5}});
  aligned.add({.size = 50, .live = {2, 6}});
  aligned.add({.size = 40, .live = {4, 7}});
  EXPECT_EQ(solved(aligned).arena(), 110u);
}

TEST(solve, tries_every_split_into_slabs) {
  problem p;
  p.max_slab = 14;
  p.memories = {{.name = "m", .reserved = {{0, 4}}}};  // at the base of every slab
  for (const bytes size : {6, 5, 5, 4, 4, 3, 3}) p.add({.size = size, .live = {0, 4}});
  EXPECT_EQ(solved(p).arena(), 42u);  // 6 + 4, 5 + 5, 4 + 3 + 3; the bound of what is live knows of 30
  EXPECT_TRUE(solved(p).optimal());
  p.memories[0].capacity = 41;
  EXPECT_EQ(solved(p).status, status::infeasible);
  EXPECT_EQ(solved(p).reason, "no split into slabs fits: every one was tried");
}

TEST(solve, fast_searches_before_it_answers_unknown) {
  problem p;
  p.capacity = 6;
  p.add({.size = 1, .alignment = 2});
  p.add({.size = 5});
  p.conflicts = {{0, 1}};
  EXPECT_TRUE(solved(p, {.work = effort::fast}).has_offsets());

  problem q;
  q.memories = {{.name = "m", .capacity = 6}, {.name = "n", .capacity = 11, .alignment = 4}};
  q.add({.size = 3});
  q.add({.size = 4, .memories = {0}});
  q.conflicts.emplace();
  q.separations = {{1, 0}};
  EXPECT_TRUE(solved(q, {.work = effort::fast}).has_offsets());
}

TEST(solve, pays_the_least_penalty_of_few_buffers_although_several_must_move) {
  problem p;
  p.memories = {{.name = "m", .alignment = 4}};
  p.add({.size = 5, .live = {1, 4}});
  p.add({.size = 3, .lifetimes = {{0, 1}, {4, 5}}, .offset = 0});
  p.add({.size = 5, .lifetimes = {{1, 3}, {3, 5}}, .alignment = 6});
  p.add({.size = 3, .live = {0, 4}});
  p.add({.size = 4, .lifetimes = {{2, 3}, {5, 6}}});
  p.reuse_penalties = {{1, 0, 3}};
  EXPECT_EQ(solved(p).arena(), 23u);
  EXPECT_EQ(solved(p).reuse_penalty, 0);
}

TEST(solve, penalties_before_the_arena_take_the_capacity_given) {
  problem p;
  const index x = p.add({.name = "x", .size = 4, .live = {0, 1}});
  const index y = p.add({.name = "y", .size = 4, .live = {1, 2}});
  p.reuse_penalties = {{x, y, 3}};
  const options first{.penalty_first = true};
  EXPECT_EQ(solve(p, first)->reuse_penalty, 3);  // without a capacity there is nothing to take
  p.capacity = 7;
  EXPECT_EQ(solve(p, first)->reuse_penalty, 3);
  p.capacity = 8;
  EXPECT_EQ(solve(p)->reuse_penalty, 3);
  const auto apart = solve(p, first);
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->reuse_penalty, 0);
  EXPECT_EQ(apart->arena(), 8u);
  EXPECT_EQ(apart->status, status::feasible);  // of the arena: the bound is 4
}

TEST(solve, penalties_before_the_arena_take_no_address_that_a_plan_may_not_have) {
  problem p;
  p.add({.size = 20, .live = {0, 1}});
  p.add({.size = 20, .live = {1, 2}});
  p.reuse_penalties = {{0, 1, 1}};
  const std::pair<bytes, bytes> ends[] = {{bytes{1} << 63, max_address + 5}, {max_bytes, max_bytes}};
  for (const auto& [capacity, reserved] : ends) {
    p.memories = {{.capacity = capacity, .reserved = {{20, reserved}}}};
    EXPECT_EQ(solved(p, {.penalty_first = true}).reuse_penalty, 1);
  }
}

RC_GTEST_PROP(solve, penalties_before_the_arena_never_pay_more, ()) {
  problem p;
  const auto n = *rc::gen::inRange<index>(2, 12);
  for (index i = 0; i < n; ++i) {
    const auto lower = *rc::gen::inRange<tick>(0, 8);
    p.add({.size = *rc::gen::inRange<bytes>(0, 20), .live = {lower, lower + *rc::gen::inRange<tick>(1, 4)}});
  }
  for (int k = 0; k < 6; ++k) {
    const auto a = *rc::gen::inRange<index>(0, n);
    const auto b = *rc::gen::inRange<index>(0, n);
    if (a != b) p.reuse_penalties.push_back({a, b, static_cast<double>(*rc::gen::inRange(1, 5))});
  }
  p.capacity = solve(p)->arena() + *rc::gen::inRange<bytes>(0, 30);
  const auto after = solve(p);
  const auto before = solve(p, {.penalty_first = true});
  RC_ASSERT(before && before->has_offsets());
  RC_ASSERT(before->reuse_penalty <= after->reuse_penalty);
  RC_ASSERT(before->arena() <= *p.capacity);
  RC_ASSERT(before->arena() >= after->lower_bound());
}

TEST(solve, pays_fewer_penalties_in_the_same_arena) {
  problem p;
  p.add({.name = "wide", .size = 8, .live = {0, 1}});
  const index x = p.add({.name = "x", .size = 4, .live = {1, 2}});
  const index y = p.add({.name = "y", .size = 4, .live = {2, 3}});
  p.reuse_penalties = {{x, y, 3}};
  const plan answer = solved(p);
  EXPECT_EQ(answer.arena(), 8u);
  EXPECT_EQ(answer.reuse_penalty, 0);
  p.reuse_penalties.push_back({0, x, 1});  // x must lie under wide
  EXPECT_EQ(solved(p).reuse_penalty, 1);
}

void check_against_the_oracle(const problem& p, const plan& answer) {
  const auto best = brute_force::smallest_arena(p);
  if (answer.has_offsets()) {
    RC_ASSERT(brute_force::accepts(p, answer));
    RC_ASSERT(!verify(p, answer));
    RC_ASSERT(best.has_value());
    RC_ASSERT(answer.arena() >= *best);
    RC_ASSERT(answer.lower_bound() <= *best);
    if (answer.optimal()) RC_ASSERT(answer.arena() == *best);
    RC_ASSERT(brute_force::penalty(p, brute_force::spots_of(p, answer)) == answer.reuse_penalty);
  } else {
    RC_ASSERT(answer.offsets.empty());
    RC_ASSERT(answer.status == status::infeasible);  // so few buffers are always decided
    RC_ASSERT(!best.has_value());
  }
}

// Every constraint there is, against all layouts of a handful of buffers.
RC_GTEST_PROP(solve, agrees_with_the_exhaustive_oracle, ()) {
  for (int round = 0; round < 10; ++round) {
    const auto p = generate::random_problem({.most_buffers = 4, .most_size = 4, .most_ticks = 5});
    if (!p) continue;
    const effort work = *rc::gen::element(effort::fast, effort::normal, effort::best);
    check_against_the_oracle(*p, *solve(*p, {.work = work}));
  }
}

RC_GTEST_PROP(solve, agrees_with_the_exhaustive_oracle_over_memories_and_slabs, ()) {
  for (int round = 0; round < 5; ++round) {
    const bool slabs = generate::one_in(2);
    const auto p = generate::random_problem(
        {.most_buffers = 3, .most_memories = slabs ? 1 : 3, .most_size = 4, .most_ticks = 5, .slabs = slabs});
    if (!p) continue;
    const effort work = *rc::gen::element(effort::fast, effort::normal, effort::best);
    const plan answer = *solve(*p, {.work = work});
    check_against_the_oracle(*p, answer);
    if (slabs && p->memories.empty() && work != effort::fast) RC_ASSERT(answer.status != status::feasible);
  }
}

RC_GTEST_PROP(solve, pays_the_least_penalty_of_few_buffers, ()) {
  for (int round = 0; round < 10; ++round) {
    const auto p = generate::random_problem({.most_buffers = 4, .most_size = 4, .most_ticks = 5});
    if (!p || p->reuse_penalties.empty()) continue;
    const plan answer = *solve(*p);
    if (!answer.has_offsets()) continue;
    double least = answer.reuse_penalty;
    brute_force::for_each_layout(*p, [&](const std::vector<brute_force::spot>& spots) {
      if (brute_force::arena(*p, spots) == answer.arena()) least = std::min(least, brute_force::penalty(*p, spots));
    });
    RC_ASSERT(answer.reuse_penalty == least);
  }
}

RC_GTEST_PROP(solve, larger_problems_give_verified_plans, ()) {
  const bool slabs = generate::one_in(3);
  const auto p = generate::random_problem(
      {.most_buffers = 40, .most_memories = 1 + generate::upto(2), .most_size = 40, .most_ticks = 30, .slabs = slabs});
  if (!p) return;
  const plan answer = *solve(*p);
  if (answer.has_offsets()) RC_ASSERT(brute_force::accepts(*p, answer));
  const plan again = *solve(*p);
  RC_ASSERT(again.offsets == answer.offsets);
}

// All problems of three buffers with sizes 1 to 2, lifetimes within three ticks, a pin or a gap, under each capacity.
TEST(solve, every_tiny_problem) {
  std::vector<interval> lives;
  for (tick lower = 0; lower < 3; ++lower) {
    for (tick upper = lower + 1; upper <= 3; ++upper) lives.push_back({lower, upper});
  }
  std::vector<buffer> shapes;
  for (const interval& live : lives) {
    for (const bytes size : {1, 2}) {
      shapes.push_back({.size = size, .live = live});
      shapes.push_back({.size = size, .live = live, .alignment = 2});
      shapes.push_back({.size = size, .live = live, .offset = 1});
    }
  }
  shapes.push_back({.size = 2, .lifetimes = {{0, 1}, {2, 3}}});
  std::size_t proved = 0, all = 0;
  for (std::size_t a = 0; a < shapes.size(); ++a) {
    for (std::size_t b = a; b < shapes.size(); ++b) {
      for (std::size_t c = b; c < shapes.size(); c += 3) {
        problem p;
        p.buffers = {shapes[a], shapes[b], shapes[c]};
        p.capacity = 5;
        const auto best = brute_force::smallest_arena(p);
        const plan answer = *solve(p);
        ++all;
        if (answer.has_offsets()) {
          ASSERT_TRUE(best && brute_force::accepts(p, answer));
          ASSERT_TRUE(!answer.optimal() || answer.arena() == *best);
          ASSERT_LE(answer.lower_bound(), *best);
          proved += answer.optimal();
        } else {
          ASSERT_TRUE(answer.status != status::infeasible || !best);
          proved += answer.status == status::infeasible;
        }
      }
    }
  }
  RecordProperty("proved_percent", static_cast<int>(100 * proved / all));
}

}  // namespace
}  // namespace berth::plan
