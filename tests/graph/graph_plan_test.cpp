#include "berth/graph/graph_plan.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "berth/graph/shadow.hpp"
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
