#include "berth/graph/in_memories.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "berth/plan/verify.hpp"

namespace {
using namespace berth;

// Values of one line of nodes: node i makes value i out of value i - 1, which has no later reader.
struct chain {
  graph_structure g;
  std::vector<std::uint32_t> home;

  explicit chain(std::initializer_list<bytes> sizes, bool in_place = false) {
    for (const bytes size : sizes) {
      const auto v = static_cast<std::uint32_t>(g.values.size());
      g.values.push_back({size, v, v == 0 ? value_kind::input : value_kind::result});
      home.push_back(0);
      if (v == 0) continue;
      node_record n;
      n.first_edge = static_cast<std::uint32_t>(g.edges.size());
      n.inputs = n.outputs = 1;
      n.in_place = in_place ? 1 : 0;
      g.edges.insert(g.edges.end(), {v - 1, v});
      if (in_place) g.edges.push_back(0);
      g.nodes.push_back(n);
    }
  }
  [[nodiscard]] result<memories_plan> plan(std::vector<memory_rule> rules, std::vector<pinned_value> pins = {},
                                           std::vector<std::uint32_t> joined = {}) const {
    return plan_in_memories({g, home, rules, pins, joined});
  }
};

bool overlap(const memories_plan& p, std::size_t a, std::size_t b) {
  const place_in_memory& x = p.place_of[a];
  const place_in_memory& y = p.place_of[b];
  return x.slab == y.slab && x.offset < y.offset + y.room && y.offset < x.offset + x.room;
}

TEST(in_memories, each_memory_has_its_own_rule_and_size) {
  chain c{100, 100, 100, 100};
  c.home = {0, 1, 0, 1};
  const auto p = c.plan({{64}, {32}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->slabs_of[0], std::vector<bytes>{128});  // one value at a time: the next lies in the other memory
  EXPECT_EQ(p->slabs_of[1], std::vector<bytes>{128});
  EXPECT_TRUE(p->optimal);
}

TEST(in_memories, a_memory_is_cut_into_slabs_that_are_no_larger_than_it_has) {
  chain c{100, 100, 100};
  for (value_record& v : c.g.values) v.output = 1;
  const auto p = c.plan({{32, 300}});
  ASSERT_TRUE(p);
  ASSERT_EQ(p->slabs_of[0].size(), 2u);
  for (const bytes slab : p->slabs_of[0]) EXPECT_LE(slab, 300u);
  EXPECT_FALSE(overlap(*p, 0, 1) || overlap(*p, 1, 2) || overlap(*p, 0, 2));
}

TEST(in_memories, a_value_larger_than_a_slab_has_one_of_its_size) {
  const auto p = chain{{64, 1000}}.plan({{32, 256}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->place_of[1].room, 1024u);
  EXPECT_GE(p->slabs_of[0][p->place_of[1].slab], 1024u);
}

TEST(in_memories, pinned_values_stay_and_keep_their_bytes) {
  chain c{64, 64, 64};
  const auto v = static_cast<std::uint32_t>(c.g.values.size());
  c.g.values.push_back({64, v, value_kind::input});
  c.home.push_back(0);
  c.g.edges.push_back(v);  // read by a node of its own, after all others
  c.g.nodes.push_back({.first_edge = static_cast<std::uint32_t>(c.g.edges.size() - 1), .inputs = 1});
  const auto p = c.plan({{32}}, {{v, 64}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->place_of[v].offset, 64u);
  for (std::uint32_t i = 0; i < v; ++i) EXPECT_FALSE(overlap(*p, i, v)) << i;
}

TEST(in_memories, pins_that_leave_no_plan_are_an_error) {
  chain c{64, 64};
  EXPECT_FALSE(c.plan({{32, 100}}, {{0, 0}}));  // a second slab would have to be opened
  EXPECT_EQ(c.plan({{32, 100}}, {{0, 0}}).error().code, errc::limit_exceeded);
}

TEST(in_memories, what_two_joined_nodes_read_lives_through_both) {
  const chain apart{64, 64, 64};
  const auto without = apart.plan({{32}});
  ASSERT_TRUE(without);
  EXPECT_TRUE(overlap(*without, 0, 2));
  const auto with = apart.plan({{32}}, {}, {0});
  ASSERT_TRUE(with);
  EXPECT_FALSE(overlap(*with, 0, 2));
  const chain merged{{64, 64, 64}, true};
  const auto in_place = merged.plan({{32}}, {}, {0});
  ASSERT_TRUE(in_place);
  EXPECT_EQ(in_place->slabs_of[0], std::vector<bytes>{64});  // over the operand itself, as it should be
  EXPECT_EQ(in_place->taken_at(1), 0u);
  EXPECT_EQ(without->taken_at(1), UINT32_MAX);
}

TEST(in_memories, sizes_beyond_64_bits_are_an_error) {
  chain c{max_bytes - 7, max_bytes - 7};
  EXPECT_FALSE(c.plan({{32}}));
}
// Returns the bytes that an allocator at run time takes in blocks of `limit` bytes. Each buffer goes into the tightest
// hole as it is born. Else it goes on top of the block that grows least (of equals the fullest), else into a new one.
bytes taken_at_run_time(const plan::problem& p, bytes limit) {
  struct lying {
    std::size_t block;
    bytes offset, end;
    plan::tick dies;
  };
  std::vector<lying> alive;
  std::vector<bytes> heights;
  for (const plan::buffer& b : p.buffers) {  // which come in the order of birth
    std::erase_if(alive, [&](const lying& l) { return l.dies <= b.live.lower; });
    std::sort(alive.begin(), alive.end(), [](const lying& x, const lying& y) { return x.offset < y.offset; });
    bytes least_left = max_bytes;
    std::pair least_growth{max_bytes, max_bytes};
    lying hole{}, top{};
    for (std::size_t k = 0; k < heights.size(); ++k) {
      bytes from = 0;
      for (const lying& l : alive) {
        if (l.block != k) continue;
        if (from + b.size <= l.offset && l.offset - from - b.size < least_left) {
          least_left = l.offset - from - b.size;
          hole = {k, from, from + b.size, b.live.upper};
        }
        from = std::max(from, l.end);
      }
      const bytes height = std::max(heights[k], from + b.size);
      const std::pair growth{height - heights[k], height - from - b.size};
      if (from + b.size <= limit && growth < least_growth) {
        least_growth = growth;
        top = {k, from, from + b.size, b.live.upper};
      }
    }
    if (least_left != max_bytes) {
      alive.push_back(hole);
    } else if (least_growth.first != max_bytes) {
      alive.push_back(top);
    } else {
      heights.push_back(0);
      alive.push_back({heights.size() - 1, 0, b.size, b.live.upper});
    }
    heights[alive.back().block] = std::max(heights[alive.back().block], alive.back().end);
  }
  return std::accumulate(heights.begin(), heights.end(), bytes{0});
}

RC_GTEST_PROP(in_memories, blocks_take_no_more_than_at_run_time, ()) {
  plan::problem p;
  const int n = *rc::gen::inRange(11, 60);
  plan::tick now = 0;
  for (int i = 0; i < n; ++i) {
    now += *rc::gen::inRange(0, 2);
    p.add({.size = *rc::gen::inRange<bytes>(1, 1000), .live = {now, now + *rc::gen::inRange(1, 12)}});
  }
  p.max_slab = *rc::gen::inRange<bytes>(1000, 2500);
  const auto planned = plan::solve(p);
  RC_ASSERT(planned && planned->has_offsets());
  RC_ASSERT(!plan::verify(p, *planned));
  RC_ASSERT(planned->arena() <= taken_at_run_time(p, *p.max_slab));
}

// ---- a deadline ----

// A graph in which each value is read some nodes later.
chain uneven(unsigned seed, int nodes) {
  std::mt19937 random{seed};
  chain c{64};
  for (int i = 0; i < nodes; ++i) {
    const auto v = static_cast<std::uint32_t>(c.g.values.size());
    c.g.values.push_back({1 + random() % 5000, v, value_kind::result});
    c.home.push_back(0);
    node_record n;
    n.first_edge = static_cast<std::uint32_t>(c.g.edges.size());
    n.inputs = n.outputs = 1;
    c.g.edges.insert(c.g.edges.end(),
                     {v - 1 - static_cast<std::uint32_t>(random() % std::min<std::uint32_t>(v, 48)), v});
    c.g.nodes.push_back(n);
  }
  return c;
}

// The height of best fit in order of birth: ggml's, one byte at a time.
bytes height_in_order_of_birth(const chain& c) {
  const liveness live = find_lifetimes(c.g, rules::unconstrained());
  const auto& buffers = live.problem.buffers;
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].live.lower < buffers[b].live.lower; });
  std::vector<std::pair<bytes, std::size_t>> placed;
  bytes height = 0;
  for (const std::size_t b : order) {
    std::vector<std::pair<bytes, bytes>> taken;
    for (const auto& [at, o] : placed) {
      if (buffers[o].live.upper > buffers[b].live.lower) taken.emplace_back(at, at + buffers[o].size);
    }
    std::sort(taken.begin(), taken.end());
    bytes best = 0, room = max_bytes, below = 0;
    for (const auto& [lower, upper] : taken) {
      if (lower - below >= buffers[b].size && lower - below < room) best = below, room = lower - below;
      below = upper;
    }
    if (room == max_bytes) best = below;
    placed.emplace_back(best, b);
    height = std::max(height, best + buffers[b].size);
  }
  return height;
}

TEST(in_memories, a_plan_cut_short_is_no_higher_than_best_fit_in_order_of_birth) {
  plan::options now;
  now.work = plan::effort::fast;
  now.deadline_s = 0;
  const std::vector<memory_rule> byte{{1}};
  for (unsigned seed = 0; seed < 60; ++seed) {
    const chain c = uneven(seed, 400);
    const auto p = plan_in_memories({c.g, c.home, byte}, now);
    ASSERT_TRUE(p) << seed;
    EXPECT_LE(p->slabs_of[0][0], height_in_order_of_birth(c)) << seed;
  }
}

TEST(in_memories, a_deadline_that_has_passed_leaves_a_plan_of_slabs_and_of_pins) {
  plan::options now;
  now.deadline_s = 0;
  const chain c = uneven(1, 300);
  const std::vector<memory_rule> small{{64, 20'000}}, any{{64}};
  EXPECT_TRUE(plan_in_memories({c.g, c.home, small}, now));
  const std::vector<pinned_value> pins{{0, 4096}};
  const auto p = plan_in_memories({c.g, c.home, any, pins}, now);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->place_of[0].offset, 4096u);
}

}  // namespace
