// Graphs inside nodes, planned by their shapes: what If, Loop and Scan give, and what they need while they run.
#include <gtest/gtest.h>

#include <algorithm>

#include "berth/graph/graph_plan.hpp"
#include "berth/model/onnx.hpp"
#include "model/complaint.hpp"
#include "model/onnx_maker.hpp"

namespace berth::model {
namespace {

using test::give;
using test::of_type;
using test::onnx_maker;
using T = onnx::TensorProto;

shapes_graph planned(const onnx_maker& m, const dimensions& said = {}) {
  return read_onnx_shapes("m.onnx", m.text(), said);
}
std::string complaint(const onnx_maker& m, const dimensions& said = {}) {
  return test::complaint_of("m.onnx", [&] { (void)planned(m, said); });
}
const value& named(const shapes_graph& g, const std::string& name) {
  const auto at = std::find(g.names.begin(), g.names.end(), name) - g.names.begin();
  return g.graph.values()[static_cast<std::size_t>(at)];
}
void boolean(onnx_maker& m, int input) {
  of_type(m.model().mutable_graph()->mutable_input(input), T::BOOL);
}

// The branches have `first` and `second` values of 256 bytes, one after the other; the last is the result.
onnx_maker choice(int first, int second, const char* op = "Neg") {
  onnx_maker m;
  m.input("x", {64}).input("c", {}).node("If", {"c"}, {"y"});
  boolean(m, 1);
  const auto branch = [&](const char* which, int length) {
    onnx_maker inner;
    std::string last = "x";
    for (int i = 0; i < length; ++i) {
      const std::string next = which + std::to_string(i);
      inner.node("Softmax", {last}, {next});  // not in place
      last = next;
    }
    give(m, which, inner.output(last));
  };
  branch("then_branch", first);
  branch("else_branch", second);
  m.node(op, {"y"}, {"z"}).output("z");
  return m;
}

TEST(onnx_bodies, the_results_of_an_if_have_its_branches_type) {
  onnx_maker m;
  m.input("c", {}).node("If", {"c"}, {"y"}).output("y");
  boolean(m, 0);
  onnx_maker yes, no;
  yes.floats("a", {2, 3}, std::vector<float>(6)).node("Identity", {"a"}, {"t"}).output("t");
  no.floats("b", {2, 3}, std::vector<float>(6)).node("Neg", {"b"}, {"e"}).output("e");
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  const shapes_graph g = planned(m);
  EXPECT_EQ(named(g, "y").size, 24u);  // the condition's type would be 6
  EXPECT_TRUE(g.counts_all);
  EXPECT_TRUE(g.notes.empty());
}

TEST(onnx_bodies, the_larger_branch_is_the_workspace) {
  for (const auto& [first, second] : {std::pair{1, 3}, std::pair{3, 1}, std::pair{2, 3}}) {
    const shapes_graph g = planned(choice(first, second));
    EXPECT_EQ(named(g, "y").size, 256u);
    // Two of three values are alive together; the last is the node's own result.
    EXPECT_EQ(g.graph.nodes()[0].workspace, 512u) << first;
    EXPECT_TRUE(g.counts_all);
  }
  EXPECT_EQ(planned(choice(1, 1)).graph.nodes()[0].workspace, 0u);
}

TEST(onnx_bodies, what_a_branch_reads_of_the_graph_around_it_is_not_counted_twice) {
  const shapes_graph g = planned(choice(2, 1));
  EXPECT_EQ(g.graph.nodes()[0].workspace, 256u);
  EXPECT_EQ(g.graph.nodes()[0].inputs.size(), 2u);                       // the condition, and x
  EXPECT_EQ(plan_graph(g.graph).value().arena(), 256u + 1 + 256 + 256);  // x, c, y and one value of the branch
}

TEST(onnx_bodies, branches_inside_branches) {
  onnx_maker m;
  m.input("x", {64}).input("c", {}).node("If", {"c"}, {"y"}).output("y");
  boolean(m, 1);
  onnx_maker inner, other, outer, plain;
  inner.node("Softmax", {"o"}, {"i1"}).node("Softmax", {"i1"}, {"i2"}).output("i2");
  other.node("Softmax", {"o"}, {"p"}).output("p");
  outer.node("Softmax", {"x"}, {"o"}).node("If", {"c"}, {"r"});
  give(outer, "then_branch", inner);
  give(outer, "else_branch", other);
  outer.output("r");
  plain.node("Softmax", {"x"}, {"q"}).output("q");
  give(m, "then_branch", outer);
  give(m, "else_branch", plain);
  // `o` and, inside, `i1`; `i2` and `r` are results.
  EXPECT_EQ(planned(m).graph.nodes()[0].workspace, 512u);
}

TEST(onnx_bodies, branches_that_differ) {
  onnx_maker m;
  m.input("x", {6}).input("c", {}).node("If", {"c"}, {"y"}).output("y");
  boolean(m, 1);
  onnx_maker yes, no;
  yes.node("Neg", {"x"}, {"t"}).output("t");
  no.node("Concat", {"x", "x"}, {"e"}).with("axis", 0).output("e");
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  const shapes_graph g = planned(m);
  EXPECT_EQ(named(g, "y").size, 48u);
  ASSERT_EQ(g.notes.size(), 1u);
  EXPECT_EQ(g.notes[0], "node 'y' (If): its branches give f32 6 and f32 12 for 'y', and the larger is planned");
  onnx_maker types;
  types.input("x", {6}).input("c", {}).node("If", {"c"}, {"y"}).output("y");
  boolean(types, 1);
  onnx_maker cast;
  cast.node("Cast", {"x"}, {"e"}).with("to", std::int64_t{T::DOUBLE}).output("e");
  give(types, "then_branch", yes);
  give(types, "else_branch", cast);
  EXPECT_EQ(complaint(types), "node 'y' (If): its branches give f32 6 and f64 6 for 'y'");
}

TEST(onnx_bodies, a_declaration_of_a_branch_is_held_against_it) {
  onnx_maker m;
  m.input("x", {6}).input("c", {}).node("If", {"c"}, {"y"}).output("y");
  boolean(m, 1);
  onnx_maker yes, no;
  yes.node("Neg", {"x"}, {"t"}).output("t");
  of_type(yes.model().mutable_graph()->mutable_output(0), T::DOUBLE);
  no.node("Neg", {"x"}, {"e"}).output("e");
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  EXPECT_EQ(complaint(m), "node 't' (Neg): its result 't' is declared f64 in the file, but is f32 6");
}

// A model may choose a branch by the size of its input: the other one does not fit it.
TEST(onnx_bodies, a_branch_that_contradicts_the_sizes_is_left_out) {
  const auto choosing = [](const char* first, const char* second) {
    onnx_maker m;
    m.input("x", {6}).input("c", {}).node("If", {"c"}, {"y"}).output("y");
    boolean(m, 1);
    onnx_maker yes, no;
    yes.node("Softmax", {"x"}, {"s"}).node("Neg", {"s"}, {"t"}).declared("t", T::FLOAT, {first}).output("t");
    no.node("Neg", {"x"}, {"e"}).declared("e", T::FLOAT, {second}).output("e");
    give(m, "then_branch", yes);
    give(m, "else_branch", no);
    return m;
  };
  const shapes_graph g = planned(choosing("6", "12"));
  EXPECT_EQ(named(g, "y").size, 24u);
  EXPECT_TRUE(g.counts_all);
  ASSERT_EQ(g.notes.size(), 1u);
  EXPECT_EQ(
      g.notes[0],
      "node 'y' (If): of its branches one is planned, since the other contradicts these sizes: node 'e' (Neg): its "
      "result 'e' is declared f32 12 in the file, but is f32 6");
  EXPECT_EQ(complaint(choosing("7", "12")),
            "node 'e' (Neg): its result 'e' is declared f32 12 in the file, but is f32 6");
}

TEST(onnx_bodies, a_result_that_is_not_known_has_the_type_that_a_branch_declares) {
  onnx_maker m;
  m.input("x", {6}).input("c", {}).node("If", {"c"}, {"y"}).output("y");
  boolean(m, 1);
  onnx_maker yes, no;
  yes.node("Frob", {"x"}, {"t"}).output("t");
  of_type(yes.model().mutable_graph()->mutable_output(0), T::DOUBLE);
  no.node("Frob", {"x"}, {"e"}).output("e");
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  const shapes_graph g = planned(m, {{"y.0", 3}});
  EXPECT_EQ(named(g, "y").size, 24u);
  EXPECT_FALSE(g.counts_all);
}

// A branch whose shapes nothing says is not counted, and a note says so.
TEST(onnx_bodies, a_branch_that_is_not_known_is_noted) {
  onnx_maker m;
  m.input("x", {6}).input("c", {}).node("If", {"c"}, {"y"}).declared("y", T::FLOAT, {"6"}).output("y");
  boolean(m, 1);
  onnx_maker yes, no;
  yes.node("Frob", {"x"}, {"t"}).output("t");
  no.node("Neg", {"x"}, {"e"}).output("e");
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  const shapes_graph g = planned(m);
  EXPECT_EQ(named(g, "y").size, 24u);
  EXPECT_FALSE(g.counts_all);
  ASSERT_EQ(g.notes.size(), 1u);
  EXPECT_TRUE(g.notes[0].starts_with("node 'y' (If): what its sub-graphs need while they run is not counted: "));
}

// s <- Softmax(Softmax(s * x)), and s kept of each round.
onnx_maker rounds(bool is_known) {
  onnx_maker body, m;
  body.input("i", {}).input("go", {}).input("s", {64});
  of_type(body.model().mutable_graph()->mutable_input(0), T::INT64);
  boolean(body, 1);
  body.node("Mul", {"s", "x"}, {"p"}).node("Softmax", {"p"}, {"q"}).node("Softmax", {"q"}, {"r"});
  body.node("Softmax", {"r"}, {"kept"}).node("Identity", {"go"}, {"on"}).output("on").output("r").output("kept");
  m.input("x", {64}).input("first", {64});
  if (is_known) {
    m.integers("n", {}, {5});
  } else {
    m.input("n", {});
    of_type(m.model().mutable_graph()->mutable_input(2), T::INT64);
  }
  m.node("Loop", {"n", "", "first"}, {"last", "all"});
  give(m, "body", body);
  m.output("last").output("all");
  return m;
}

TEST(onnx_bodies, a_loop_carries_and_collects) {
  const shapes_graph g = planned(rounds(true));
  EXPECT_EQ(named(g, "last").size, 256u);
  EXPECT_EQ(named(g, "all").size, 5u * 256);
  EXPECT_EQ(named(g, "all").type.shape, (shape{5, 64}));
  EXPECT_TRUE(g.counts_all);
  EXPECT_TRUE(g.notes.empty());
  // The condition, s, over which p is written, and q. The round's number is not read.
  EXPECT_EQ(g.graph.nodes()[0].workspace, 1u + 256 + 256);
}

TEST(onnx_bodies, rounds_that_only_the_run_knows_are_said) {
  onnx_maker m = rounds(false);
  EXPECT_NE(complaint(m).find("how often it runs is not known; say it with --dim all.0=N"), std::string::npos)
      << complaint(m);
  const shapes_graph g = planned(m, {{"all.0", 9}});
  EXPECT_EQ(named(g, "all").size, 9u * 256);
  EXPECT_TRUE(g.counts_all);
}

TEST(onnx_bodies, a_scan_takes_slices) {
  onnx_maker m, body;
  body.input("so_far", {2}).input("column", {2});
  body.node("Add", {"so_far", "column"}, {"sum"}).node("Softmax", {"sum"}, {"kept"}).output("sum").output("kept");
  m.input("first", {2}).input("x", {2, 3});
  m.node("Scan", {"first", "x"}, {"last", "all"}).with("num_scan_inputs", std::int64_t{1});
  m.with("scan_input_axes", std::vector<std::int64_t>{1}).with("scan_output_axes", std::vector<std::int64_t>{-1});
  give(m, "body", body);
  m.output("last").output("all");
  const shapes_graph g = planned(m);
  EXPECT_EQ(named(g, "last").size, 8u);
  EXPECT_EQ(named(g, "all").type.shape, (shape{2, 3}));
  EXPECT_TRUE(g.counts_all);
}

}  // namespace
}  // namespace berth::model
