#include "plan/several/repair.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "plan/brute_force.hpp"
#include "plan/generate.hpp"

namespace berth::plan {
namespace {

std::vector<std::vector<double>> random_costs(const std::vector<bundle>& bundles) {
  std::vector<std::vector<double>> cost;
  for (const bundle& u : bundles) {
    cost.emplace_back();
    for (std::size_t k = 0; k < u.memories.size(); ++k) cost.back().push_back(generate::upto(9));
  }
  return cost;
}

}  // namespace

// The result keeps every constraint, by an oracle that looks at pairs and bytes.
RC_GTEST_PROP(repair, gives_memories_and_offsets_that_are_allowed, ()) {
  for (int round = 0; round < 5; ++round) {
    const auto made = generate::random_problem(
        {.most_buffers = 12, .most_memories = 3, .most_size = 10, .most_ticks = 12, .slabs = generate::one_in(3)});
    if (!made || made->memories.empty()) continue;
    const std::vector<bundle> bundles = bundles_of(*made, true);
    if (std::any_of(bundles.begin(), bundles.end(), [](const bundle& u) { return u.memories.empty(); })) continue;
    const auto cost = random_costs(bundles);
    std::vector<index> wished;
    if (generate::one_in(2)) {
      for (const bundle& u : bundles) wished.push_back(u.memories.back());
    }
    const repaired got = repair(*made, bundles, cost, wished, {});
    if (got.memory_of.empty()) continue;
    std::vector<brute_force::spot> spots(made->buffers.size());
    double sum = 0;
    for (std::size_t u = 0; u < bundles.size(); ++u) {
      const auto& choices = bundles[u].memories;
      const auto chosen = std::find(choices.begin(), choices.end(), got.memory_of[u]);
      RC_ASSERT(chosen != choices.end());
      sum += cost[u][static_cast<std::size_t>(chosen - choices.begin())];
      for (const index i : bundles[u].members) {
        spots[i] = {got.memory_of[u], made->max_slab ? got.slab_of[i] : 0, got.offsets[i]};
      }
    }
    RC_ASSERT(brute_force::allowed(*made, spots));
    RC_ASSERT(got.cost == sum);
  }
}

// 5, 3, 2 and 4, 4, 2 fill two memories of 10: 4 beside 5 leaves no room for the last 2.
TEST(repair, what_found_no_room_goes_first) {
  problem p;
  p.memories = {{.name = "a", .capacity = bytes{10}}, {.name = "b", .capacity = bytes{10}}};
  for (const bytes size : {5, 4, 4, 3, 2, 2}) p.add({.size = size, .live = {0, 1}});
  const auto bundles = bundles_of(p);
  const std::vector<std::vector<double>> cost(bundles.size(), {0, 0});
  EXPECT_EQ(repair(p, bundles, cost, {}, {}).memory_of.size(), 6u);
}
TEST(repair, the_largest_first_may_be_cheapest) {
  problem p;
  p.memories = {{.name = "fast", .capacity = bytes{10}}, {.name = "slow"}};
  p.add({.size = 1, .live = {0, 1}});
  p.add({.size = 10, .live = {0, 10}});
  p.add({.size = 1, .live = {9, 10}});
  const auto bundles = bundles_of(p);
  EXPECT_EQ(repair(p, bundles, {{0, 1}, {0, 10}, {0, 1}}, {}, {}).cost, 2);
}

// 25 bytes in slabs of 10: two of them and one of 5.
TEST(repair, begins_a_slab_where_a_bundle_fits_in_none_and_the_memory_has_room_for_it) {
  problem p;
  p.max_slab = 10;
  p.memories = {{.name = "fast", .capacity = bytes{25}}, {.name = "slow"}};
  std::vector<std::vector<double>> cost;
  for (const bytes size : {9, 8, 5, 4, 4, 1}) {
    p.add({.size = size, .live = {0, 1}});
    cost.push_back({0, static_cast<double>(size)});
  }
  const auto bundles = bundles_of(p);
  const repaired got = repair(p, bundles, cost, {}, {});
  EXPECT_EQ(got.memory_of, (std::vector<index>{0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(got.slab_of, (std::vector<index>{0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(got.offsets, (std::vector<bytes>{0, 0, 0, 0, 4, 9}));
}

// Two buffers take halves of the fast memory in turn. The third, alive with both, finds no room by address although its
// bytes would fit in sum.
TEST(repair, puts_elsewhere_what_finds_no_room_by_address) {
  problem p;
  p.memories = {{.name = "fast", .capacity = bytes{10}}, {.name = "slow"}};
  p.add({.size = 4, .live = {0, 4}, .offset = 3});
  p.add({.size = 6, .live = {0, 4}});
  const std::vector<bundle> bundles = bundles_of(p, true);
  const repaired got = repair(p, bundles, {{0, 1}, {0, 1}}, {}, {});
  EXPECT_EQ(got.memory_of, (std::vector<index>{0, 1}));
  EXPECT_EQ(got.cost, 1);
  EXPECT_EQ(got.offsets, (std::vector<bytes>{3, 0}));
}

TEST(repair, nothing_where_a_unit_fits_nowhere) {
  problem p;
  p.memories = {{.name = "fast", .capacity = bytes{5}}, {.name = "slow", .capacity = bytes{5}}};
  for (int i = 0; i < 3; ++i) p.add({.size = 3, .live = {0, 1}});
  EXPECT_TRUE(repair(p, bundles_of(p, true), {{0, 1}, {0, 1}, {0, 1}}, {}, {}).memory_of.empty());
}

}  // namespace berth::plan
