#include "berth/plan/certificate.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "berth/plan/solve.hpp"
#include "plan/brute_force.hpp"
#include "plan/generate.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

argument stack(std::vector<index> buffers, bytes step = 1) {
  return {.buffers = std::move(buffers), .step = step};
}

bool accepts(const problem& p, argument why, bytes bound) {
  why.bound = bound;
  return !verify_bound(p, bound, {why});
}

// The largest bound that the checker takes for this stack.
bytes proved(const problem& p, const argument& why) {
  bytes bound = 0;
  while (accepts(p, why, bound + 1)) ++bound;
  return bound;
}

std::string objection_to(const problem& p, bytes lower_bound, const certificate& proof) {
  const auto found = verify_bound(p, lower_bound, proof);
  return found ? found->rule : "";
}

TEST(certificate, sum) {
  problem p;
  p.add({.size = 4, .live = {0, 2}});
  p.add({.size = 6, .live = {1, 3}});
  p.add({.size = 5, .live = {2, 4}});
  EXPECT_EQ(proved(p, {.at = 1}), 10u);
  EXPECT_EQ(proved(p, {.at = 2}), 11u);
  EXPECT_EQ(proved(p, {.at = 9}), 0u);
  EXPECT_EQ(proved(p, stack({0, 1})), 10u);
  EXPECT_EQ(objection_to(p, 9, {stack({0, 2})}), "two buffers of the stack do not conflict");
  p.separations = {{0, 2}};
  EXPECT_EQ(proved(p, stack({0, 1, 2})), 15u);
  argument both = stack({0});
  both.at = 2;
  EXPECT_EQ(proved(p, both), 15u);
  EXPECT_EQ(objection_to(p, 1, {stack({0, 0})}), "two buffers of the stack do not conflict");
  EXPECT_EQ(objection_to(p, 1, {stack({3})}), "an argument names a buffer that the problem does not have");
}

TEST(certificate, step) {
  problem p;
  p.alignment = 4;
  p.add({.size = 5, .live = {0, 2}});
  p.add({.size = 6, .live = {0, 2}});
  p.add({.size = 7, .live = {0, 2}});
  EXPECT_EQ(proved(p, {.at = 0}), 18u);
  EXPECT_EQ(proved(p, {.at = 0, .step = 4}), 21u);  // 8 + 8 + 5: the shortest rounds up most, and lies on top
  EXPECT_EQ(proved(p, {.at = 0, .step = 2}), 19u);
  EXPECT_EQ(proved(p, {.at = 0, .step = 8}),
            17u);  // each covers a multiple of 8, so that the highest begins at 12 or above
  EXPECT_EQ(objection_to(p, 18, {{.at = 0, .step = ~bytes{0}}}), "a step above 2^62 bytes");
  EXPECT_EQ(objection_to(p, 18, {{.at = 0, .step = 0}}), "a step of zero");
  p.memories = {{.name = "m", .alignment = 6}};
  EXPECT_EQ(proved(p, {.at = 0, .step = 12}), 29u);
}

TEST(certificate, a_step_counts_those_too_that_are_aligned_to_less) {
  problem p;
  p.add({.size = 5, .live = {0, 1}, .alignment = 4});
  p.add({.size = 5, .live = {0, 1}, .alignment = 4});
  p.add({.size = 6, .live = {0, 1}, .alignment = 2});
  EXPECT_EQ(proved(p, {.at = 0}), 16u);
  EXPECT_EQ(proved(p, stack({0, 1}, 4)), 13u);
  EXPECT_EQ(proved(p, {.at = 0, .step = 4}), 17u);
  EXPECT_EQ(solve(p)->arena(), 17u);  // at 0, 12 and 6
}

TEST(certificate, blocks_and_heads) {
  problem p;
  p.memories = {{.name = "m", .reserved = {{10, 12}}}};
  p.add({.size = 6, .live = {0, 2}});
  p.add({.size = 6, .live = {0, 2}});
  EXPECT_EQ(proved(p, {.at = 0}), 18u);  // one in the hole of 10, one above 12
  p.memories[0].reserved = {{5, 6}};
  EXPECT_EQ(proved(p, {.at = 0}), 18u);  // none in the hole of 5
  p.memories[0].reserved = {{12, 20}};
  EXPECT_EQ(proved(p, {.at = 0}), 12u);
  p.memories.clear();
  p.buffers[0].offset = 3;
  EXPECT_EQ(proved(p, {.at = 0}), 15u);
  EXPECT_EQ(proved(p, stack({0})), 9u);
  // Pinned next to the second buffer only, and not in the stack.
  p.buffers[0].offset.reset();
  p.buffers[0].live = {0, 4};
  p.buffers[1].live = {2, 6};
  p.add({.size = 6, .live = {1, 3}});
  p.add({.size = 5, .live = {5, 7}, .offset = 0});
  EXPECT_EQ(proved(p, {.at = 2}), 18u);
  p.buffers[0].live = p.buffers[2].live = {2, 6};
  EXPECT_EQ(proved(p, {.at = 2}), 23u);
}

TEST(certificate, pins_that_meet_prove_any_bound) {
  problem p;
  p.add({.size = 4, .live = {0, 2}, .offset = 0});
  p.add({.size = 4, .live = {1, 3}, .offset = 3});
  p.add({.size = 4, .live = {0, 3}, .offset = 7});
  EXPECT_TRUE(accepts(p, stack({0, 1}), max_bytes));
  EXPECT_TRUE(accepts(p, {.at = 1}, max_bytes));
  EXPECT_EQ(proved(p, stack({1, 2})), 11u);
  EXPECT_EQ(proved(p, {.at = 0}), 11u);
  p.memories = {{.name = "m", .reserved = {{4, 5}, {11, 12}}}};
  EXPECT_TRUE(accepts(p, stack({1}), max_bytes));
  EXPECT_EQ(proved(p, stack({0})), 4u);
  EXPECT_EQ(proved(p, stack({2})), 11u);
  p.memories[0].reserved = {{10, 11}};
  EXPECT_TRUE(accepts(p, stack({2}), max_bytes));
}

TEST(certificate, groups_reach_over_their_members) {
  problem p;
  p.add({.size = 2, .live = {0, 2}, .alias_group = 0});
  p.add({.size = 9, .live = {4, 6}, .alias_group = 0});
  p.add({.size = 3, .live = {0, 2}, .alias_group = 1});
  p.add({.size = 8, .live = {8, 9}, .alias_group = 1});
  EXPECT_EQ(proved(p, {.at = 0}), 10u);  // 2 + 8, or 3 + 9
  p.buffers[3].size = 20;
  EXPECT_EQ(proved(p, {.at = 0}), 12u);  // 3 + 9
  EXPECT_EQ(objection_to(p, 5, {stack({0, 1})}), "two buffers of the stack do not conflict");
}

// Each pair of the two groups is looked at once.
TEST(certificate, a_thousand_beside_a_thousand_pinned_ones) {
  problem p;
  for (index i = 0; i < 1000; ++i) p.add({.size = 16, .live = {0, 9}, .offset = 0, .alias_group = 0});
  for (index i = 0; i < 1000; ++i) p.add({.size = 16, .live = {0, 9}, .alias_group = 1});
  EXPECT_TRUE(accepts(p, {.at = 0}, 32));
  EXPECT_FALSE(accepts(p, {.at = 0}, 33));
  EXPECT_EQ(solve(p)->arena(), 32U);
}

TEST(certificate, memories_add_up) {
  problem p;
  p.memories = {{.name = "a"}, {.name = "b", .alignment = 8}};
  p.add({.size = 5, .live = {0, 2}, .memories = {0}});
  p.add({.size = 6, .live = {0, 2}, .memories = {1}});
  p.add({.size = 6, .live = {0, 2}, .memories = {1}});
  p.add({.size = 7, .live = {0, 2}});
  const argument in_a{.bound = 5, .memory = 0, .at = 0}, in_b{.bound = 14, .memory = 1, .at = 0, .step = 8};
  EXPECT_EQ(objection_to(p, 19, {in_a, in_b}), "");
  EXPECT_EQ(objection_to(p, 20, {in_a, in_b}), "the arguments prove less than the bound");
  EXPECT_EQ(objection_to(p, 10, {in_a, in_a}), "the arguments prove less than the bound");
  EXPECT_EQ(objection_to(p, 5, {{.bound = 5, .memory = 2, .at = 0}}),
            "an argument is about a memory that the problem does not have");
  EXPECT_EQ(objection_to(p, 7, {{.bound = 7, .memory = 0, .buffers = {3}}}),
            "a buffer of the stack may live in another memory");
  EXPECT_EQ(objection_to(p, 24, {{.bound = 24, .at = 0}}), "");
  // A pin that may hold in another memory keeps no buffer out of this one.
  p.buffers[3].offset = 0;
  EXPECT_EQ(proved(p, {.memory = 1, .buffers = {1}}), 6u);
  p.memories[0].capacity = 7;  // it just fits there
  EXPECT_EQ(proved(p, {.memory = 1, .buffers = {1}}), 6u);
  p.memories[0].capacity = 6;
  EXPECT_EQ(proved(p, {.memory = 1, .buffers = {1}}), 13u);
  p.memories[0].capacity.reset();
  p.buffers[3].memories = {1};
  EXPECT_EQ(proved(p, {.memory = 1, .buffers = {1}}), 13u);
  p.buffers[3].memories.clear();
  EXPECT_EQ(objection_to(p, 29, {in_a, {.bound = 24, .at = 0}}), "some arguments name a memory and some do not");
}

TEST(certificate, searches_are_not_checked) {
  problem p;
  p.add({.size = 4, .live = {0, 2}});
  const argument live{.bound = 4, .at = 0}, search{.kind = argument::kind::search, .bound = 6};
  EXPECT_EQ(objection_to(p, 6, {live, search}), "the rest of the bound is what a search found, and is not checked");
  EXPECT_EQ(objection_to(p, 4, {live, search}), "");
  EXPECT_EQ(objection_to(p, 7, {live, search}), "the arguments prove less than the bound");
  EXPECT_EQ(objection_to(p, 1, {}), "the arguments prove less than the bound");
  EXPECT_EQ(objection_to(p, 0, {}), "");
  EXPECT_EQ(objection_to(p, 0, {{.bound = 5, .at = 0}}), "the stack proves less than the argument says");
}

TEST(certificate, more_than_can_be_checked) {
  problem p;
  for (index i = 0; i < 1000; ++i) p.add({.size = 1, .live = {0, 9}});
  EXPECT_EQ(objection_to(p, 0, certificate(300'000, argument{.bound = 1, .at = 1})),
            "the arguments are more than can be checked");
  EXPECT_EQ(objection_to(p, 1000, certificate(100, argument{.bound = 1000, .at = 1})), "");
}

// The checker accepts no bound above the least arena, for any clique claimed.
RC_GTEST_PROP(certificate, nothing_above_the_optimum_is_accepted, ()) {
  for (int round = 0; round < 5; ++round) {
    const bool several = generate::one_in(3);
    const auto made = generate::random_problem({.most_buffers = several ? 3 : 4,
                                                .most_memories = several ? 2 : 1,
                                                .most_size = 5,
                                                .most_ticks = 4,
                                                .slabs = generate::one_in(6)});
    if (!made || made->buffers.empty()) continue;
    problem p = *made;
    if (p.memories.empty() && !p.max_slab && generate::one_in(3)) {
      p.capacity.reset();
      const bytes lo = *rc::gen::inRange<bytes>(0, 8);
      p.memories = {{.name = "m", .alignment = generate::alignment(), .reserved = {{lo, lo + 2}, {lo + 5, lo + 6}}}};
      if (!validate(p)) continue;
    }
    const auto best = brute_force::smallest_arena(p);
    if (!best) continue;
    for (int k = 0; k < 6; ++k) {
      argument why;
      if (generate::one_in(2)) why.at = *rc::gen::inRange<tick>(0, 4);
      for (index i = 0; i < p.buffers.size(); ++i) {
        if (generate::one_in(why.at ? 4 : 2)) why.buffers.push_back(i);
      }
      if (generate::one_in(3)) why.memory = static_cast<index>(generate::upto(1));
      why.step = *rc::gen::element<bytes>(1, 1, 2, 3, 4, 6, 12);
      RC_ASSERT(!accepts(p, why, max_bytes));
      RC_LOG() << proved(p, why) << " of " << *best << std::endl;
      RC_ASSERT(proved(p, why) <= *best);
    }
  }
}

// The least arena of buffers that all live at once: in the order of their offsets each lies as low as it can.
bytes least_arena_of_a_stack(const problem& p) {
  std::vector<std::pair<bytes, bytes>> taken = p.memories[0].reserved;
  std::vector<index> order;
  bytes pinned_end = 0;
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (!p.buffers[i].offset) {
      order.push_back(i);
      continue;
    }
    const bytes at = *p.buffers[i].offset;
    taken.emplace_back(at, at + p.buffers[i].size);
    pinned_end = std::max(pinned_end, at + p.buffers[i].size);
  }
  bytes best = max_bytes;
  do {
    bytes end = 0;
    for (const index i : order) {
      const buffer& b = p.buffers[i];
      bytes at = align_up(end, b.alignment);
      for (std::size_t k = 0; k < taken.size(); ++k) {
        if (at >= taken[k].second || taken[k].first >= at + b.size) continue;
        at = align_up(taken[k].second, b.alignment);
        k = SIZE_MAX;  // from the first range again
      }
      end = at + b.size;
    }
    best = std::min(best, std::max(end, pinned_end));
  } while (std::ranges::next_permutation(order).found);
  return best;
}

// Sizes of many bytes. Some buffers fill holes of more than 2^14 units to the last byte, or to one less or more.
RC_GTEST_PROP(certificate, nothing_above_the_optimum_is_accepted_at_byte_scale, ()) {
  for (int round = 0; round < 20; ++round) {
    problem p;
    p.memories = {{.name = "m"}};
    const bytes unit = *rc::gen::element<bytes>(1, 1, 3, 64);
    const bytes count = *rc::gen::inRange<bytes>(2, 6);
    std::vector<bytes> sizes;
    for (bytes i = 0; i < count; ++i) {
      const bytes size = unit * *rc::gen::inRange<bytes>(1, *rc::gen::element<bytes>(10, 20'000, 1'000'000));
      p.add({.size = size, .live = {0, 1}, .alignment = *rc::gen::element<bytes>(1, 1, 1, 2, 64)});
      sizes.push_back(size);
    }
    bytes start = 0;
    for (bytes hole = 0, holes = *rc::gen::inRange<bytes>(1, 3); hole < holes; ++hole) {
      bytes room = 0;
      for (const bytes size : sizes) room += *rc::gen::inRange(0, 2) != 0 ? size : 0;
      room += *rc::gen::element<bytes>(0, 0, 1, unit);
      room -= std::min(room, *rc::gen::element<bytes>(0, 0, 0, 1));
      const bytes block = *rc::gen::element<bytes>(1, 64, 5000);
      if (hole == 0 && *rc::gen::inRange(0, 3) == 0) {
        p.add({.size = block, .live = {0, 1}, .alignment = 1, .offset = start + room});
      } else {
        p.memories[0].reserved.emplace_back(start + room, start + room + block);
      }
      start += room + block;
    }
    RC_PRE(validate(p));
    const bytes best = least_arena_of_a_stack(p);
    for (const bytes step : {bytes{1}, bytes{2}, unit, bytes{64}}) {
      RC_ASSERT(!accepts(p, {.at = 0, .step = step}, best + 1));
    }
    const plan answer = *solve(p);
    RC_ASSERT(answer.lower_bound() <= best);
    RC_ASSERT(answer.arena() >= best);
  }
}

// The bound of solve() is accepted, with or without a plan, up to the part that it names a search's. No byte beyond the
// optimum is accepted.
RC_GTEST_PROP(certificate, every_bound_is_accepted, ()) {
  for (int round = 0; round < 5; ++round) {
    const bool several = generate::one_in(3);
    const auto p = generate::random_problem({.most_buffers = several ? 8 : 14,
                                             .most_memories = several ? 3 : 1,
                                             .most_size = 20,
                                             .most_ticks = 12,
                                             .slabs = generate::one_in(6)});
    if (!p) continue;
    const plan answer = *solve(*p, {.work = *rc::gen::element(effort::fast, effort::normal)});
    std::map<index, bytes> checked, said;
    for (const argument& why : answer.proof) {
      bytes& of_all = said[why.memory.value_or(0)];
      of_all = std::max(of_all, why.bound);
      if (why.kind == argument::kind::search) continue;
      bytes& of_stacks = checked[why.memory.value_or(0)];
      of_stacks = std::max(of_stacks, why.bound);
    }
    const auto sum = [](const std::map<index, bytes>& by_memory) {
      bytes total = 0;
      for (const auto& [memory, bound] : by_memory) total += bound;
      return total;
    };
    // Pins that meet prove any bound.
    if (std::ranges::any_of(answer.proof, [](const argument& why) { return why.bound == max_bytes; })) {
      RC_ASSERT(answer.status == status::infeasible);
      RC_ASSERT(!verify_bound(*p, max_bytes, answer.proof));
      continue;
    }
    RC_ASSERT(sum(said) == answer.lower_bound());
    RC_ASSERT(!verify_bound(*p, sum(checked), answer.proof));
    const bool beyond = answer.reason == "buffer is pinned beyond the capacity";  // its group may reach further
    RC_ASSERT(beyond || verify_bound(*p, sum(checked) + 1, answer.proof));
    RC_ASSERT(!answer.has_offsets() || verify_bound(*p, answer.arena() + 1, answer.proof));
  }
}

// The search counts in units of 3 bytes; the certificate counts bytes, where the last buffer may start at any.
TEST(certificate, alignments_finer_than_the_unit) {
  problem p;
  p.alignment = 6;
  p.tail_pad = 1;
  p.add({.size = 2, .live = {2, 3}});
  p.add({.size = 2, .live = {2, 5}});
  p.add({.size = 2, .lifetimes = {{1, 2}, {3, 5}}});
  p.add({.size = 5, .live = {0, 4}, .alignment = 1});
  p.separations = {{1, 0}, {3, 0}};
  const auto answer = solve(p);
  ASSERT_TRUE(answer);
  EXPECT_FALSE(verify_bound(p, 0, answer->proof));
}

// The search refutes 9, where its stack reaches 7; the empty buffer's pin alone proves as much.
TEST(certificate, an_empty_buffer_pinned_as_high_as_the_search_proved) {
  problem p;
  p.alignment = 3;
  memory m;
  m.reserved = {{3, 6}};
  p.memories.push_back(m);
  p.add({.size = 1, .live = {3, 5}, .alignment = 5});
  p.add({.size = 1, .live = {4, 6}});
  p.add({.size = 1, .live = {2, 7}});
  p.add({.size = 0, .live = {3, 8}, .alignment = 5, .offset = 10});
  const auto answer = solve(p);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->lower_bound(), 10u);
  EXPECT_FALSE(verify_bound(p, 10, answer->proof));
}

// The planner trusts its own searches, but not that the arguments reach what the plan says.
TEST(certificate, trusted_searches_reach_their_own_bounds_only) {
  problem p;
  p.add({.size = 4, .live = {0, 1}});
  const certificate proof{{.kind = argument::kind::stack, .bound = 4, .buffers = {0}},
                          {.kind = argument::kind::search, .bound = 9}};
  const auto objects = [&](bytes bound, searches by) { return bool{verify_bound_within(p, bound, proof, {}, by)}; };
  EXPECT_FALSE(objects(9, searches::are_trusted));
  EXPECT_TRUE(objects(10, searches::are_trusted));
  EXPECT_FALSE(objects(4, searches::prove_nothing));
  EXPECT_TRUE(objects(5, searches::prove_nothing));
}

}  // namespace
}  // namespace berth::plan
