// The map below vector clocks against std::map: contents, copies that stay as they were, nodes that come back.
#include "device/vector_clock.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <new>
#include <random>
#include <vector>

#include "support/failing_new.hpp"

namespace berth::detail {
namespace {

using support::fail_new_after;
using plain = std::map<std::uint32_t, std::uint64_t>;

struct pair_of_maps {
  epoch_tree tree;
  plain expected;
};

// Neighbours, some far apart, and the ends of the range of ids.
std::uint32_t draw_id(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0: return static_cast<std::uint32_t>(1 + random() % 40);
    case 1: return static_cast<std::uint32_t>(1000 + random() % 300);
    case 2: return static_cast<std::uint32_t>(1 + random() % 0xffffffffu);
    default: return 0xffffffffu - static_cast<std::uint32_t>(random() % 20);
  }
}

void check(const pair_of_maps& one, std::mt19937_64& random) {
  RC_ASSERT(one.tree.size() == one.expected.size());
  for (const auto& [id, epoch] : one.expected) RC_ASSERT(one.tree.of(id) == epoch);
  for (int i = 0; i < 20; ++i) {
    const std::uint32_t id = draw_id(random);
    const auto it = one.expected.find(id);
    RC_ASSERT(one.tree.of(id) == (it == one.expected.end() ? 0 : it->second));
  }
}

void set(pair_of_maps& one, epoch_nodes& nodes, std::mt19937_64& random) {
  const std::uint32_t id = draw_id(random);
  const std::uint64_t epoch = one.tree.of(id) + 1 + random() % 3;
  one.tree.set(nodes, id, epoch);
  one.expected[id] = epoch;
}

void join(pair_of_maps& one, const pair_of_maps& other, epoch_nodes& nodes) {
  const plain before = one.expected;
  for (const auto& [id, epoch] : other.expected) one.expected[id] = std::max(one.expected[id], epoch);
  const bool changed = one.tree.join(nodes, other.tree);
  RC_ASSERT(changed || one.expected == before);
}

void remove(pair_of_maps& one, epoch_nodes& nodes, std::mt19937_64& random) {
  const std::uint64_t keep = 1 + random() % 4;
  const auto gone = [keep](std::uint32_t id) { return id / 3 % keep == 0; };
  one.tree.remove(nodes, gone);
  std::erase_if(one.expected, [&gone](const auto& entry) { return gone(entry.first); });
}

RC_GTEST_PROP(epoch_tree, is_the_same_as_a_plain_map, (std::uint64_t seed)) {
  std::mt19937_64 random{seed};
  epoch_nodes nodes;
  {
    std::vector<pair_of_maps> all(4);
    for (int i = 0; i < 300; ++i) {
      pair_of_maps& one = all[random() % all.size()];
      const pair_of_maps& other = all[random() % all.size()];
      switch (random() % 16) {
        case 0: one = other; break;
        case 1: remove(one, nodes, random); break;
        case 2: join(one, other, nodes); break;
        default: set(one, nodes, random); break;
      }
      if (i % 8 == 0) {
        for (const pair_of_maps& each : all) check(each, random);
      }
    }
  }
  RC_ASSERT(nodes.in_use() == 0u);
}

RC_GTEST_PROP(epoch_tree, stays_as_it_was_where_there_is_no_memory, (std::uint64_t seed)) {
  std::mt19937_64 random{seed};
  epoch_nodes nodes;
  {
    std::vector<pair_of_maps> all(2);
    for (int i = 0; i < 200; ++i) {
      pair_of_maps& one = all[random() % 2];
      const epoch_tree shared = one.tree;
      const std::uint32_t id = draw_id(random);
      const std::uint64_t epoch = one.tree.of(id) + 1;
      const auto what = random() % 3;
      fail_new_after(static_cast<long>(1 + random() % 3));
      bool failed = false;
      try {
        if (what == 0) one.tree.join(nodes, all[0].tree);
        if (what == 1) one.tree.remove(nodes, [](std::uint32_t n) { return n % 5 == 0; });
        if (what == 2) one.tree.set(nodes, id, epoch);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      fail_new_after(0);
      if (!failed) {
        if (what == 0) {
          for (const auto& [n, e] : all[0].expected) one.expected[n] = std::max(one.expected[n], e);
        }
        if (what == 1) std::erase_if(one.expected, [](const auto& entry) { return entry.first % 5 == 0; });
        if (what == 2) one.expected[id] = epoch;
      }
      check(one, random);
    }
  }
  RC_ASSERT(nodes.in_use() == 0u);
}

// complete() may leave out what it was called for, in the same tree or in one that shares its nodes, and nothing else.
RC_GTEST_PROP(epoch_tree, completes_everything_once, (std::uint64_t seed)) {
  std::mt19937_64 random{seed};
  epoch_nodes nodes;
  std::vector<pair_of_maps> all(3);
  plain done;
  for (int i = 0; i < 200; ++i) {
    pair_of_maps& one = all[random() % all.size()];
    const pair_of_maps& other = all[random() % all.size()];
    switch (random() % 8) {
      case 0: one = other; break;
      case 1: join(one, other, nodes); break;
      case 2: {
        one.tree.complete([&done](std::uint32_t id, std::uint64_t epoch) { done[id] = std::max(done[id], epoch); });
        for (const auto& [id, epoch] : one.expected) RC_ASSERT(done[id] >= epoch);
        std::size_t calls = 0;
        one.tree.complete([&calls](std::uint32_t, std::uint64_t) { ++calls; });
        RC_ASSERT(calls == 0u);
        break;
      }
      default: set(one, nodes, random); break;
    }
  }
}

TEST(epoch_tree, shares_the_nodes_of_trees_that_become_equal) {
  epoch_nodes nodes;
  epoch_tree a;
  for (std::uint32_t id = 1; id <= 256; ++id) a.set(nodes, id, 1);
  epoch_tree b = a;
  a.set(nodes, 7, 2);
  b.set(nodes, 200, 2);
  a.join(nodes, b);
  b.join(nodes, a);
  EXPECT_EQ(b.of(7), 2u);
  EXPECT_FALSE(b.join(nodes, a));
  EXPECT_LE(nodes.in_use(), 20u);  // a tree of 256 ids has 18 nodes: no node is there twice
}

TEST(epoch_tree, keeps_no_node_above_a_single_one) {
  epoch_nodes nodes;
  epoch_tree tree;
  for (std::uint32_t id = 1; id < 100'000; id += 99) tree.set(nodes, id, 1);
  tree.remove(nodes, [](std::uint32_t id) { return id != 100; });
  EXPECT_EQ(tree.of(100), 1u);
  EXPECT_EQ(nodes.in_use(), 1u);
  tree.remove(nodes, [](std::uint32_t) { return true; });
  EXPECT_EQ(nodes.in_use(), 0u);
}

TEST(epoch_nodes, freed_nodes_are_used_again) {
  epoch_nodes nodes;
  const auto fill = [&nodes] {
    epoch_tree tree;
    for (std::uint32_t id = 1; id <= 4096; ++id) tree.set(nodes, id, 1);
  };
  fill();
  EXPECT_EQ(nodes.in_use(), 0u);
  fail_new_after(1);
  EXPECT_NO_THROW(fill());
  fail_new_after(0);
}

}  // namespace
}  // namespace berth::detail
