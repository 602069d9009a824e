#include "berth/graph/graph.hpp"

#include <gtest/gtest.h>

#include <string>

#include "berth/graph/fingerprint.hpp"
#include "berth/graph/graph_plan.hpp"

namespace {
using namespace berth;

TEST(graph, a_view_beyond_its_root_says_by_how_much) {
  graph g;
  const value_id x = g.input("x", {.shape = {10}});
  (void)g.view("tail", x, {.shape = {4}}, 28);
  EXPECT_EQ(g.fault().kind, fault_kind::view_beyond_root);
  EXPECT_EQ(g.fault().number, 4u);
  EXPECT_EQ(g.fault().text, "view 'tail' of 16 bytes at offset 28 ends 4 bytes beyond 'x', which has 40");
}

TEST(graph, a_value_that_does_not_exist_yet_is_a_cycle_or_disorder) {
  graph g;
  (void)g.node("a", {value_id{1}}, {.shape = {1}});
  EXPECT_EQ(g.fault().kind, fault_kind::unknown_value);
  EXPECT_NE(g.fault().text.find("node 'a' reads value #1"), std::string::npos);
}

TEST(graph, sizes_that_overflow_or_make_no_sense_are_refused) {
  for (const tensor_type& t : {tensor_type{.shape = {-1}}, tensor_type{.shape = {1}, .type = element::other},
                               tensor_type{.shape = {2, 2}, .strides = {4}}}) {
    graph g;
    g.input("x", t);
    EXPECT_EQ(g.fault().kind, fault_kind::bad_shape);
  }
  graph g;
  g.input("x", {.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}});
  EXPECT_EQ(g.fault().kind, fault_kind::size_overflow);
}

TEST(graph, writing_into_a_constant_is_refused) {
  graph g;
  const value_id w = g.constant("w", {.shape = {4}});
  (void)g.node_into("update", {w}, w);
  EXPECT_EQ(g.fault().kind, fault_kind::bad_node);
}

TEST(graph, names_that_repeat_are_a_fault_where_asked_for) {
  graph g;
  g.input("x", {.shape = {4}});
  g.input("x", {.shape = {8}});
  EXPECT_TRUE(validate(g, false).ok());
  const graph_fault fault = validate(g, true);
  EXPECT_EQ(fault.kind, fault_kind::duplicate_name);
  EXPECT_EQ(fault.number, 32u);
}

TEST(graph, strided_sizes_reach_to_the_last_element) {
  graph g;
  const value_id x = g.input("x", {.shape = {3, 4}, .strides = {100, 4}});
  EXPECT_EQ(g[x].size, 216u);
}

// The bad input of which an engine should hear the name and the bytes.

graph_fault refusal(const graph& g, graph_options o = {}) {
  graph_fault why;
  EXPECT_FALSE(plan_graph(g, o, &why));
  return why;
}

TEST(bad_input, a_cycle) {
  graph g;
  const value_id x = g.input("x", {.shape = {4}});
  const value_id later{2};  // what "b" will make
  (void)g.node("a", {x, later}, {.shape = {4}});
  (void)g.node("b", {value_id{1}}, {.shape = {4}});
  const graph_fault why = refusal(g);
  EXPECT_EQ(why.kind, fault_kind::unknown_value);
  EXPECT_EQ(why.value, later);
  EXPECT_EQ(why.text,
            "node 'a' reads value #2, which does not exist yet: the graph has a cycle, or its nodes are out of order");
}

TEST(bad_input, a_view_beyond_its_root_through_a_view) {
  graph g;
  const value_id x = g.input("cache", {.shape = {100}});
  const value_id half = g.view("half", x, {.shape = {50}}, 200);
  g.output(g.node("y", {g.view("slot", half, {.shape = {40}}, 44)}, {.shape = {4}}));
  const graph_fault why = refusal(g);
  EXPECT_EQ(why.kind, fault_kind::view_beyond_root);
  EXPECT_EQ(why.number, 4u);
  EXPECT_EQ(why.text, "view 'slot' of 160 bytes at offset 244 ends 4 bytes beyond 'cache', which has 400");
}

TEST(bad_input, a_view_whose_end_exceeds_64_bits) {
  graph g;
  const value_id x = g.input("x", {.shape = {100}});
  (void)g.view("far", x, {.shape = {50}}, max_bytes - 100);
  EXPECT_EQ(refusal(g).kind, fault_kind::view_beyond_root);
  EXPECT_EQ(refusal(g).text.substr(0, 22), "view 'far' of 200 byte");
}

TEST(bad_input, duplicate_names) {
  graph g;
  g.input("mask", {.shape = {4}});
  g.output(g.node("mask", {value_id{0}}, {.shape = {8}}));
  const graph_fault why = refusal(g, {.unique_names = true});
  EXPECT_EQ(why.kind, fault_kind::duplicate_name);
  EXPECT_EQ(why.number, 32u);
  EXPECT_EQ(why.text, "values #0 and #1 (32 bytes) are both called 'mask'");
}

TEST(bad_input, a_budget_one_byte_too_small) {
  graph g;
  g.output(g.node("logits", {g.input("x", {.shape = {16}})}, {.shape = {16}}));
  const graph_fault why = refusal(g, {.budget = 127});
  EXPECT_EQ(why.kind, fault_kind::over_budget);
  EXPECT_EQ(why.number, 128u);
  EXPECT_EQ(why.text.substr(0, 67), "the arena needs 128 bytes, 1 more than the budget of 127; value 'lo");
  EXPECT_TRUE(plan_graph(g, {.budget = 128}));
}

TEST(bad_input, sizes_that_exceed_64_bits_together) {
  graph g;
  const tensor_type half{.type = element::other, .size = bytes{1} << 63};
  g.output(g.node("y", {g.input("a", half), g.input("b", half)}, {.shape = {4}}));
  const graph_fault why = refusal(g);
  EXPECT_EQ(why.kind, fault_kind::size_overflow);
}

TEST(bad_input, sizes_that_exceed_what_can_be_planned_together) {
  graph g;
  const tensor_type large{.type = element::other, .size = bytes{1} << 61};
  g.output(g.node("y", {g.input("a", large), g.input("b", large)}, {.shape = {4}}));
  const graph_fault why = refusal(g);
  EXPECT_EQ(why.kind, fault_kind::size_overflow);
  EXPECT_EQ(why.number, (bytes{1} << 62) + 16);
  EXPECT_EQ(why.text,
            "all values together take 4611686018427387920 bytes: no more than 2^62, with alignments, can be planned");
}

// No error: the root survives.
TEST(bad_input, an_output_that_is_a_view) {
  graph g;
  const value_id x = g.input("x", {.shape = {16}});
  const value_id a = g.node("a", {x}, {.shape = {16}});
  const value_id kept = g.view("kept", a, {.shape = {4}}, 16);
  g.output(kept);
  const value_id b = g.node("b", {a}, {.shape = {16}}, {.in_place = {0}});
  const value_id c = g.node("c", {b}, {.shape = {16}});
  g.output(c);
  const graph_plan p = plan_graph(g, {.verify = true}).value();
  EXPECT_TRUE(g[a].output);
  EXPECT_EQ(p.offset_of[kept.index], p.offset_of[a.index] + 16);
  EXPECT_NE(p.offset_of[b.index], p.offset_of[a.index]);
  EXPECT_NE(p.offset_of[c.index], p.offset_of[a.index]);
}

TEST(fingerprint, every_part_of_the_structure_counts) {
  const auto make = [](int variant) {
    graph g;
    const tensor_type t{.shape = {8}};
    const value_id x = g.input("x", variant == 1 ? tensor_type{.shape = {9}} : t);
    const value_id c = variant == 2 ? g.external("c", t) : g.constant("c", t);
    const value_id v = g.view(x, {.shape = {2}}, variant == 3 ? 4 : 0);
    node_options o{.op = variant == 4 ? "mul" : "add"};
    if (variant == 5) o.workspace = 1;
    if (variant == 6) o.stream = 1;
    if (variant == 7) o.in_place = {0};
    const value_id y = g.node("y", {x, c}, t, o);
    const value_id z = g.node("z", {variant == 8 ? c : v, y}, t);
    g.output(z);
    if (variant == 9) g.output(y);
    if (variant == 10) g.separate(x, z);
    if (variant == 11) g.input("more", t);
    if (variant == 12) (void)g.node("more", {y}, t);
    return g;
  };
  const change expected[] = {change::none,       change::value_size,  change::value_kind,  change::view_offset,
                             change::node_op,    change::workspace,   change::lane,        change::operands,
                             change::operands,   change::output_flag, change::separations, change::value_count,
                             change::value_count};
  const graph planned = make(0);
  for (int variant = 0; variant <= 12; ++variant) {
    const graph now = make(variant);
    ASSERT_TRUE(now.fault().ok()) << now.fault().text;
    const difference d = first_difference(planned.structure(), now.structure());
    EXPECT_EQ(d.what, expected[variant]) << variant << ": " << name(d.what);
    EXPECT_EQ(same_structure(planned.structure(), now.structure()), variant == 0);
    EXPECT_EQ(digest(planned.structure()) == digest(now.structure()), variant == 0);
    const std::string text = describe(d, planned.structure(), now);
    EXPECT_FALSE(text.empty());
    if (d.what != change::view_offset) continue;
    const bytes at = now.structure().views[0].offset;
    ASSERT_NE(at, 0u);
    EXPECT_NE(text.find("was at offset 0 of its root, is at " + std::to_string(at) + " now"), std::string::npos)
        << text;
  }
}

// One field of one record at a time. A plan serves a graph that asks for no more in the same structure.
TEST(fingerprint, a_graph_fits_only_if_every_field_does) {
  using structure = graph_structure;
  structure planned{.values = {{.size = 8, .root = 0, .kind = value_kind::state}, {.size = 8, .root = 1}},
                    .nodes = {{.workspace = 4, .op = 5, .stream = 1, .first_edge = 0, .inputs = 1, .outputs = 1}},
                    .edges = {0, 1},
                    .views = {{.offset = 2, .value = 1, .writer = 1, .before = 1}},
                    .separations = {0, 1}};
  struct change_of {
    const char* what;
    bool fits;
    void (*make)(structure&);
  };
  const change_of all[] = {
      {"a smaller value", true, [](structure& s) { --s.values[1].size; }},
      {"a larger value", false, [](structure& s) { ++s.values[1].size; }},
      {"a smaller state", false, [](structure& s) { --s.values[0].size; }},
      {"another root", false, [](structure& s) { s.values[1].root = 0; }},
      {"another kind", false, [](structure& s) { s.values[1].kind = value_kind::input; }},
      {"an output", false, [](structure& s) { s.values[1].output = 1; }},
      {"a smaller workspace", true, [](structure& s) { --s.nodes[0].workspace; }},
      {"a larger workspace", false, [](structure& s) { ++s.nodes[0].workspace; }},
      {"another operator", true, [](structure& s) { ++s.nodes[0].op; }},
      {"another stream", false, [](structure& s) { ++s.nodes[0].stream; }},
      {"fewer inputs", false, [](structure& s) { s.nodes[0].inputs = 0; }},
      {"more outputs", false, [](structure& s) { ++s.nodes[0].outputs; }},
      {"an operand in place", false, [](structure& s) { ++s.nodes[0].in_place; }},
      {"another edge", false, [](structure& s) { s.edges[0] = 1; }},
      {"another offset of a view", true, [](structure& s) { ++s.views[0].offset; }},
      {"a view of another value", false, [](structure& s) { ++s.views[0].value; }},
      {"a view written by another node", false, [](structure& s) { ++s.views[0].writer; }},
      {"a view written after another one", false, [](structure& s) { ++s.views[0].before; }},
      {"another separation", false, [](structure& s) { s.separations[1] = 0; }},
      {"one more value", false, [](structure& s) { s.values.push_back({}); }},
      {"one more node", false, [](structure& s) { s.nodes.push_back({}); }},
      {"one more edge", false, [](structure& s) { s.edges.push_back(0); }},
      {"one more view", false, [](structure& s) { s.views.push_back({}); }},
      {"one more separation", false, [](structure& s) { s.separations.push_back(0); }},
  };
  EXPECT_TRUE(fits_within(planned, planned));
  for (const change_of& one : all) {
    structure now = planned;
    one.make(now);
    EXPECT_EQ(fits_within(planned, now), one.fits) << one.what;
    EXPECT_FALSE(same_structure(planned, now)) << one.what;
    EXPECT_NE(digest(planned), digest(now)) << one.what;
  }
}
}  // namespace
