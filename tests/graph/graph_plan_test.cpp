#include "berth/graph/graph_plan.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "graph/random_graph.hpp"

namespace {
using namespace berth;

std::vector<std::uint32_t> in_order(const graph& g) {
  std::vector<std::uint32_t> order(g.nodes().size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

graph_plan planned(const graph& g, bytes alignment = 4) {
  graph_options options;
  options.rules = rules::unconstrained();
  options.rules->start_alignment = alignment;
  options.search.work = plan::effort::fast;
  options.verify = false;
  graph_fault why;
  auto made = plan_graph(g, options, &why);
  EXPECT_TRUE(made.has_value()) << why.text;
  return std::move(*made);
}

RC_GTEST_PROP(graph_plan, runs_as_without_reuse, (std::uint32_t seed)) {
  const graph g = test::random_graph(seed);
  RC_ASSERT(g.fault().ok());
  const graph_plan p = planned(g);
  const graph_fault fault = verify_bytes(g, p);
  if (!fault.ok()) RC_FAIL(fault.text);
  RC_ASSERT(test::run_with_plan(g, p, in_order(g)) == test::run_without_reuse(g));
}

RC_GTEST_PROP(graph_plan, runs_as_without_reuse_in_several_lanes_under_any_schedule, (std::uint32_t seed)) {
  const graph g = test::random_graph(seed, {.nodes = 24, .lanes = 3});
  const graph_plan p = planned(g);
  const graph_fault fault = verify_bytes(g, p);
  if (!fault.ok()) RC_FAIL(fault.text);
  const auto expected = test::run_without_reuse(g);
  for (std::uint32_t i = 0; i < 8; ++i) {
    RC_ASSERT(test::run_with_plan(g, p, test::random_schedule(g, seed + i)) == expected);
  }
}

RC_GTEST_PROP(graph_plan, the_shadow_rejects_what_would_run_wrong, (std::uint32_t seed, std::uint32_t which)) {
  const graph g = test::random_graph(seed, {.nodes = 12});
  graph_plan p = planned(g);
  std::vector<std::uint32_t> movable;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    if (g.values()[v].kind == value_kind::result && g.values()[v].size <= p.arena()) movable.push_back(v);
  }
  const std::uint32_t moved = movable[which % movable.size()];
  const bytes room = (p.arena() - g.values()[moved].size) / 4;
  const bytes shift = 4 * (which / 7 % (room + 1)) - p.offset_of[moved];
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    if (g.values()[v].root.index == moved) p.offset_of[v] += shift;
  }
  const bool same = test::run_with_plan(g, p, in_order(g)) == test::run_without_reuse(g);
  RC_CLASSIFY(!same, "the mutation changes the result");
  RC_ASSERT(same || !verify_bytes(g, p).ok());
}

// By node: which nodes run before it, or are it, under every schedule.
std::vector<std::vector<bool>> run_no_later(const graph& g) {
  std::vector<std::vector<bool>> before(g.nodes().size(), std::vector<bool>(g.nodes().size(), false));
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    const auto behind = [&](std::uint32_t other) {
      for (std::uint32_t k = 0; other < n && k < n; ++k) before[n][k] = before[n][k] || before[other][k];
    };
    before[n][n] = true;
    for (std::uint32_t k = 0; k < n; ++k) {
      if (g.nodes()[k].stream == g.nodes()[n].stream) behind(k);
    }
    for (const value_id v : g.nodes()[n].inputs) behind(g[g[v].root].producer.index);
  }
  return before;
}

// Returns whether of any pair of values or workspaces that share bytes one is gone before the other begins.
bool all_pairs_are_ordered(const graph& g, const graph_plan& p) {
  struct tenant {
    bytes begin, end;
    std::vector<std::uint32_t> touched_by;
    bool first, last;
  };
  std::vector<tenant> all;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    if (it.kind == value_kind::view || p.offset_of[v] == no_offset) continue;
    const bool state = it.kind == value_kind::state;
    tenant t{p.offset_of[v], p.offset_of[v] + it.size, {}, state || it.kind == value_kind::input, state || it.output};
    for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
      const node& user = g.nodes()[n];
      const auto touches = [&](value_id x) { return g[x].root.index == v; };
      if (std::ranges::any_of(user.inputs, touches) || std::ranges::any_of(user.outputs, touches)) {
        t.touched_by.push_back(n);
      }
    }
    all.push_back(std::move(t));
  }
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    const bytes at = p.workspace_of[n];
    if (at != no_offset) all.push_back({at, at + g.nodes()[n].workspace, {n}, false, false});
  }
  const auto before = run_no_later(g);
  const auto gone = [&](const tenant& a, const tenant& b) {
    return !a.last && !b.first && !b.touched_by.empty() &&
           std::ranges::all_of(a.touched_by, [&](std::uint32_t n) { return before[b.touched_by[0]][n]; });
  };
  for (const tenant& a : all) {
    for (const tenant& b : all) {
      if (&a == &b || a.begin >= b.end || b.begin >= a.end) continue;
      if (!gone(a, b) && !gone(b, a)) return false;
    }
  }
  return true;
}

RC_GTEST_PROP(graph_plan, the_shadow_judges_several_lanes_as_all_pairs_do, (std::uint32_t seed)) {
  const graph g = test::random_graph(seed, {.nodes = 16, .lanes = 1 + static_cast<int>(2 + seed % 3)});
  graph_plan p = planned(g);
  std::mt19937 random{seed};
  for (int moved = 0; moved < 8; ++moved) {
    const auto n = static_cast<std::uint32_t>(random() % g.nodes().size());
    const auto v = static_cast<std::uint32_t>(random() % g.values().size());
    graph_plan other = p;
    bytes& at = random() % 2 == 0 ? other.workspace_of[n] : other.offset_of[v];
    if (at == no_offset || g.values()[v].kind == value_kind::view) continue;
    const bytes to = 4 * (random() % (p.arena() / 4));
    if (&at == &other.workspace_of[n]) {
      at = std::min(to, p.arena() - g.nodes()[n].workspace);
    } else {
      at = std::min(to, p.arena() - g.values()[v].size);
    }
    for (const value& view : g.values()) {
      const auto k = static_cast<std::size_t>(&view - g.values().data());
      if (view.kind == value_kind::view && view.root.index == v && other.offset_of[k] != no_offset) {
        other.offset_of[k] = other.offset_of[v] + view.root_offset;
      }
    }
    const graph_fault fault = verify_bytes(g, other);
    const bool unordered = fault.text.find("no order keeps them apart") != std::string::npos;
    RC_CLASSIFY(unordered, "no order");
    RC_CLASSIFY(fault.ok(), "right");
    if (fault.ok() || unordered) RC_ASSERT(fault.ok() == all_pairs_are_ordered(g, other));
  }
}

// Two chains that look at each other now and then, each in three places in turn, and a plan of them.
TEST(graph_plan, many_nodes_of_several_lanes_are_verified_in_a_moment) {
  constexpr std::uint32_t nodes = 200'000, lanes = 2;
  const tensor_type kib{.shape = {256}};
  graph g;
  std::vector<value_id> newest(lanes, g.input("x", kib));
  graph_plan p;
  p.alignment = 64;
  p.granularity = 1;
  bytes top = 1024 * (1 + 3 * lanes);
  p.offset_of.push_back(0);
  for (std::uint32_t n = 0; n < nodes; ++n) {
    const std::uint32_t lane = n % lanes;
    const bool looks = n % 1000 < lanes;
    std::vector<value_id> inputs{newest[lane]};
    if (looks) inputs.push_back(newest[1 - lane]);
    newest[lane] = g.node("n" + std::to_string(n), inputs, kib, {.stream = lane});
    // Values that the other lane looks at have places of their own.
    const bool looked_at = (n + lanes) % 1000 < lanes || looks;
    p.offset_of.push_back(looked_at ? top : 1024 * (1 + 3 * lane + n / lanes % 3));
    if (looked_at) top += 1024;
  }
  for (const value_id v : newest) g.output(v);
  p.workspace_of.assign(nodes, no_offset);
  p.arena_bytes = top;
  const graph_fault right = verify_bytes(g, p);
  EXPECT_TRUE(right.ok()) << right.text;
  p.offset_of[nodes / 2 + 1] = p.offset_of[nodes / 2];
  EXPECT_FALSE(verify_bytes(g, p).ok());
}

TEST(graph_plan, an_in_place_chain_is_one_buffer) {
  graph g;
  const tensor_type kib{.shape = {256}};
  value_id v = g.input("x", kib);
  for (int i = 0; i < 5; ++i) v = g.node("relu" + std::to_string(i), {v}, kib, {.op = "relu", .in_place = {0}});
  g.output(v);
  const graph_plan p = planned(g, 64);
  EXPECT_EQ(p.arena(), 1024u);
  EXPECT_EQ(p.in_place.size(), 5u);
  EXPECT_EQ(p.no_reuse_bytes, 6 * 1024u);
  EXPECT_TRUE(p.optimal());
}

TEST(graph_plan, of_two_operands_the_one_held_longest_is_taken_over) {
  graph g;
  const tensor_type kib{.shape = {256}};
  value_id x = g.input("residual", kib);
  for (const char* layer : {"a", "b"}) {
    const value_id inner = g.node(std::string{layer} + ".inner", {x}, kib);
    x = g.node(std::string{layer} + ".add", {inner, x}, kib, {.op = "add", .in_place = {0, 1}});
  }
  g.output(x);
  const graph_plan p = planned(g, 64);
  EXPECT_EQ(p.in_place, (std::vector<take_over>{{1, 1}, {3, 1}}));
  EXPECT_EQ(p.arena(), 2048u);
}

TEST(graph_plan, an_operand_read_again_is_not_taken_over) {
  graph g;
  const tensor_type kib{.shape = {256}};
  const value_id x = g.input("x", kib);
  const value_id y = g.node("y", {x}, kib, {.in_place = {0}});
  g.output(g.node("z", {x, y}, kib));
  const graph_plan p = planned(g, 64);
  EXPECT_NE(p.offset_of[x.index], p.offset_of[y.index]);
}

TEST(graph_plan, a_view_costs_nothing_and_lies_in_its_root) {
  graph g;
  const value_id x = g.input("x", {.shape = {100}});
  const value_id half = g.view(x, {.shape = {50}}, 200);
  const value_id quarter = g.view(half, {.shape = {25}}, 100);
  g.output(g.node("sum", {quarter}, {.shape = {1}}));
  const graph_plan p = planned(g, 4);
  EXPECT_EQ(p.offset_of[quarter.index], p.offset_of[x.index] + 300);
  EXPECT_EQ(p.arena(), 404u);
}

TEST(graph_plan, a_budget_one_byte_too_small_is_named) {
  graph g;
  const value_id x = g.input("image", {.shape = {64}});
  g.output(g.node("conv", {x}, {.shape = {64}}));
  graph_options options;
  options.budget = 511;
  graph_fault why;
  const auto p = plan_graph(g, options, &why);
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, errc::limit_exceeded);
  EXPECT_EQ(why.kind, fault_kind::over_budget);
  EXPECT_EQ(why.number, 512u);
  EXPECT_NE(why.text.find("1 more than the budget of 511"), std::string::npos) << why.text;
  options.budget = 512;
  EXPECT_TRUE(plan_graph(g, options));
}

TEST(graph_plan, states_lie_first_and_apart) {
  graph g;
  const value_id a = g.state("a", {.shape = {10}});
  const value_id b = g.state("b", {.shape = {10}});
  const value_id x = g.input("x", {.shape = {16}});
  g.output(g.node_into("store", {x}, b));
  g.output(g.node("y", {x, a}, {.shape = {16}}));
  const graph_plan p = planned(g, 64);
  EXPECT_EQ(p.offset_of[a.index], 0u);
  EXPECT_EQ(p.offset_of[b.index], 64u);
  EXPECT_EQ(p.state_bytes, 128u);
  EXPECT_GE(p.offset_of[x.index], 128u);
}
}  // namespace
