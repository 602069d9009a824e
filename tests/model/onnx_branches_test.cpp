// Sub-graphs: If with a condition that is known, or known at run time only; Loop with a number of rounds that is known.
#include <gtest/gtest.h>

#include "berth/model/builtin.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/program.hpp"
#include "model/complaint.hpp"
#include "model/onnx_models.hpp"

namespace berth::model {
namespace {

using test::give;
using test::of_type;
using test::onnx_maker;
using T = onnx::TensorProto;
class onnx_branches : public test::onnx_models {};

using rows = std::vector<std::vector<float>>;

// Returns x + w if the sum of x is above the limit, else x * w; both branches call their own constant w.
onnx_maker choosing(std::int64_t columns_of_else = 3) {
  onnx_maker yes, no, m;
  yes.floats("w", {3}, {10, 20, 30}).node("Add", {"x", "w"}, {"t"}).output("t");
  no.floats("w", {columns_of_else}, std::vector<float>(static_cast<std::size_t>(columns_of_else), 2))
      .node("Mul", {"x", "w"}, {"e"})
      .output("e");
  m.input("x", columns_of_else == 3 ? std::vector<std::int64_t>{3} : std::vector<std::int64_t>{1});
  m.floats("limit", {1}, {1}).list("axes", {0});
  m.node("ReduceSum", {"x", "axes"}, {"sum"}).node("Greater", {"sum", "limit"}, {"c"}).node("If", {"c"}, {"y"});
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  m.output("y");
  return m;
}

TEST_F(onnx_branches, both_branches_are_planned_and_one_is_chosen_at_run_time) {
  onnx_maker m = choosing();
  EXPECT_EQ(run(m, {{1, 2, 3}}), (rows{{11, 22, 33}}));
  EXPECT_EQ(run(m, {{-1, -2, 3}}), (rows{{-2, -4, 6}}));
  onnx_maker unlike = choosing(2);
  EXPECT_EQ(complaint(unlike),
            "node 'y' (If): its condition is known at run time only, and its branches give 3 and 2 for 'y'");
}

// A value for a shape or a version is known: the other branch needs not even fit.
TEST_F(onnx_branches, a_branch_that_is_never_taken_is_none) {
  for (const std::int64_t wanted : {3, 4}) {
    onnx_maker yes, no, m;
    yes.node("Neg", {"x"}, {"t"}).output("t");
    no.list("to", {7, 7}).node("Reshape", {"x", "to"}, {"t"}).output("t");
    m.input("x", {3}).list("three", {wanted});
    m.node("Shape", {"x"}, {"s"}).node("Equal", {"s", "three"}, {"c"}).node("If", {"c"}, {"y"});
    give(m, "then_branch", yes);
    give(m, "else_branch", no);
    m.output("y");
    if (wanted == 3) {
      EXPECT_EQ(run(m, {{1, 2, 3}}), (rows{{-1, -2, -3}}));
    } else {
      EXPECT_EQ(complaint(m), "node '@1/t' (Reshape): cannot reshape 3 to 7x7");
    }
  }
}

// s <- s * x + i, s kept of each round; within it an If of the round's number. `keeps`: the condition of each round.
onnx_maker rounds(std::int64_t count, const std::string& keeps = "Identity") {
  onnx_maker body, yes, no, m;
  yes.node("Neg", {"p"}, {"q1"}).output("q1");
  no.node("Identity", {"p"}, {"q2"}).output("q2");
  body.integers("two", {}, {2});
  for (const char* name : {"i", "go", "s"}) body.input(name, {});
  auto* inputs = body.model().mutable_graph()->mutable_input();
  of_type(inputs->Mutable(0), T::INT64);
  of_type(inputs->Mutable(1), T::BOOL);
  inputs->Mutable(2)->clear_type();
  body.node("Mul", {"s", "x"}, {"p"}).node("Equal", {"i", "two"}, {"second"}).node("If", {"second"}, {"q"});
  give(body, "then_branch", yes);
  give(body, "else_branch", no);
  body.node("Cast", {"i"}, {"f"}).with("to", std::int64_t{T::FLOAT});
  body.node("Add", {"q", "f"}, {"r"});
  if (keeps == "Less") {
    body.node("Less", {"i", "two"}, {"go_on"});
  } else if (keeps == "x") {
    body.node("ReduceMax", {"r"}, {"most"}).with("keepdims", std::int64_t{0});
    body.node("Cast", {"most"}, {"go_on"}).with("to", std::int64_t{T::BOOL});
  } else {
    body.node("Identity", {"go"}, {"go_on"});
  }
  body.node("Identity", {"r"}, {"kept"}).output("go_on").output("r").output("kept");
  of_type(body.model().mutable_graph()->mutable_output(0), T::BOOL);
  m.input("x", {2}).input("first", {2}).integers("n", {}, {count});
  m.node("Loop", {"n", "", "first"}, {"last", "all"});
  give(m, "body", body);
  m.output("last").output("all");
  return m;
}

TEST_F(onnx_branches, a_loop_of_so_many_rounds_is_its_body_so_many_times) {
  onnx_maker m = rounds(4);
  // 1, 2 -> 2, 6 -> 5, 19 -> -10 + 2, -57 + 2 -> -16 + 3, -165 + 3
  const rows want{{-13, -162}, {2, 6, 5, 19, -8, -55, -13, -162}};
  EXPECT_EQ(run(m, {{2, 3}, {1, 2}}), want);
  onnx_maker stops = rounds(1'000'000, "Less");  // behind the round of number 2
  EXPECT_EQ(run(stops, {{2, 3}, {1, 2}}), (rows{{-8, -55}, {2, 6, 5, 19, -8, -55}}));
}

// A sum that goes on along the second dimension of x, from its end; all sums, the last first.
onnx_maker scan(std::int64_t axis) {
  onnx_maker m, body;
  body.input("so_far", {2}).input("column", {2});
  body.node("Add", {"so_far", "column"}, {"sum"}).node("Identity", {"sum"}, {"kept"}).output("sum").output("kept");
  m.input("first", {2}).input("x", {2, 3});
  m.node("Scan", {"first", "x"}, {"last", "all"}).with("num_scan_inputs", std::int64_t{1});
  const auto list = [&](const char* name, std::int64_t value) { m.with(name, std::vector<std::int64_t>{value}); };
  list("scan_input_axes", axis);
  list("scan_input_directions", 1);
  list("scan_output_axes", -1);
  list("scan_output_directions", 1);
  give(m, "body", body);
  m.output("last").output("all");
  return m;
}

TEST_F(onnx_branches, a_scan_is_its_body_for_each_element) {
  for (const std::int64_t axis : {1, -1}) {
    onnx_maker m = scan(axis);
    const rows want{{16, 35}, {16, 15, 13, 35, 31, 26}};
    EXPECT_EQ(run(m, {{10, 20}, {1, 2, 3, 4, 5, 6}}), want);
  }
  onnx_maker beyond = scan(2);
  EXPECT_EQ(complaint(beyond), "node 'last' (Scan): axis 2 is out of range");
}

TEST_F(onnx_branches, a_loop_that_is_not_known_is_refused_with_its_reason) {
  onnx_maker depends = rounds(4, "x");
  EXPECT_EQ(complaint(depends), "node 'last' (Loop): its condition is not known before it runs");
  onnx_maker none = rounds(0);
  EXPECT_EQ(complaint(none), "node 'last' (Loop): it runs not once, so that 'all' is empty");
  onnx_maker endless = rounds(std::int64_t{1} << 60);
  EXPECT_EQ(complaint(endless),
            "node 'last' (Loop): sub-graphs and sequences come to more than 16384 nodes, inputs and outputs");
  onnx_maker open = rounds(4);
  open.model().mutable_graph()->mutable_node(0)->set_input(0, "");
  EXPECT_EQ(complaint(open), "node 'last' (Loop): how often it runs is not known before it runs");
}

// A name that a graph inside another gives again is its own there, and the outer one's behind it.
TEST_F(onnx_branches, names_of_an_inner_graph_end_with_it) {
  onnx_maker inner, other, yes, no, m;
  inner.floats("w", {1}, {5}).node("Mul", {"x", "w"}, {"v1"}).output("v1");
  other.node("Neg", {"x"}, {"o"}).output("o");
  yes.floats("w", {1}, {10}).node("Add", {"x", "w"}, {"v"}).node("Greater", {"x", "w"}, {"c"}).node("If", {"c"}, {"u"});
  give(yes, "then_branch", inner);
  give(yes, "else_branch", other);
  yes.node("Sub", {"u", "v"}, {"d"}).node("Add", {"d", "w"}, {"t"}).output("t");
  no.node("Neg", {"x"}, {"e"}).output("e");
  m.input("x", {1}).floats("one", {1}, {1}).node("Greater", {"x", "one"}, {"c0"}).node("If", {"c0"}, {"y"});
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  m.output("y");
  EXPECT_EQ(run(m, {{20}}), (rows{{100 - 30 + 10}}));
  EXPECT_EQ(run(m, {{2}}), (rows{{-2 - 12 + 10}}));
  // A description may give a value's name again.
  const auto neg = [](const char* from, const char* to) { return node{to, "Neg", {from}, {to}, {}}; };
  const auto of = [](subgraph g) { return std::make_shared<const subgraph>(std::move(g)); };
  node choice{"u", "If", {"c"}, {"u"}, {}};
  choice.bodies = {{"then_branch", of({{}, {"v"}, {neg("v", "v")}})}, {"else_branch", of({{}, {"v"}, {}})}};
  const node both{"t", "Add", {"u", "v"}, {"t"}, {}};
  node outer{"y", "If", {"c"}, {"y"}, {}};
  outer.bodies = {{"then_branch", of({{}, {"t"}, {neg("x", "v"), choice, both}})},
                  {"else_branch", of({{}, {"x"}, {}})}};
  const description d{"test", 17, {{"x", {}, {1}}, {"c", element::boolean, {}}}, {"y"}, {}, {outer}};
  EXPECT_EQ(test::complaint_of("test", [&] { (void)lower(d); }), "");
}

onnx_maker doubling(const std::string& taken) {
  onnx_maker yes, no, m;
  yes.floats("w", {1}, {1}).node("Add", {"w", "w"}, {"t"}).output("t");
  no.node("Neg", {taken}, {"e"}).output("e");
  m.input(taken, {16});
  m.list("a", {1}).list("b", {1}).node("Equal", {"a", "b"}, {"c"}).node("If", {"c"}, {"y"});
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  m.output("y");
  return m;
}

// Constants of sub-graphs, and what is computed in them, get names here: not those of other values.
TEST_F(onnx_branches, names_that_are_given_here_are_nobody_elses) {
  for (const std::string taken : {"#0/w", "@1/t", "@17/"}) {
    onnx_maker m = doubling(taken);
    EXPECT_EQ(complaint(m), "the name '" + taken + "' is of the kind that values of sub-graphs get here");
  }
  for (const std::string free : {"#w", "@/1", "#0", "1/w", "@1a/t"}) {
    onnx_maker m = doubling(free);
    EXPECT_EQ(complaint(m), "");
  }
  onnx_maker plain;  // no sub-graph
  plain.input("#0/w", {2}).node("Neg", {"#0/w"}, {"y"}).output("y");
  EXPECT_EQ(complaint(plain), "");
}

// Such descriptions come from no file.
TEST_F(onnx_branches, a_name_of_two_values_is_refused) {
  const auto said = [](const description& d) { return test::complaint_of("test", [&] { (void)lower(d); }); };
  const tensor one{element::f32, {1}, std::vector<std::byte>(4)};
  description d{"test", 17, {{"c", element::f32, {1000}}}, {"y"}, {{"c", one}}, {{"y", "Add", {"c", "c"}, {"y"}, {}}}};
  EXPECT_EQ(said(d), "'c' is an input and a constant");
  const tensor thrice{element::i64, {}, {std::byte{3}, {}, {}, {}, {}, {}, {}, {}}};
  for (const char* taken : {"@1/round", "@2/condition", "@4/round", "@10/part", "@11/axis"}) {
    subgraph body{{"i", "go", "s"}, {"go", "r", "i"}, {{"r", "Neg", {"s"}, {"r"}, {}}}};
    description loop{"test", 17, {{taken, element::f32, {1000}}}, {"y", "z"}, {{"n", thrice}}, {}};
    loop.nodes.push_back({"y", "Loop", {"n", "", taken}, {"y", "z"}, {}});
    loop.nodes[0].bodies.emplace("body", std::make_shared<subgraph>(body));
    EXPECT_TRUE(said(loop).ends_with("its result '" + std::string{taken} + "' is there already")) << said(loop);
  }
}

// A loop without a node in its body is paid for too: by what each of its rounds takes and gives.
TEST_F(onnx_branches, rounds_without_nodes_have_a_bound) {
  const std::string most =
      "node 'all' (Loop): sub-graphs and sequences come to more than 16384 nodes, inputs and outputs";
  const auto idle = [](std::int64_t count, int outputs) {
    onnx_maker body, m;
    body.input("i", {}).input("go", {}).output("go");
    auto* g = body.model().mutable_graph();
    of_type(g->mutable_input(0), T::INT64);
    of_type(g->mutable_input(1), T::BOOL);
    of_type(g->mutable_output(0), T::BOOL);
    for (int k = 0; k < outputs; ++k) body.output("i");
    m.input("x", {1}).integers("n", {}, {count}).node("Loop", {"n", ""}, {"all"});
    give(m, "body", body);
    m.node("Cast", {"all"}, {"f"}).with("to", std::int64_t{T::FLOAT}).node("Mul", {"f", "x"}, {"y"}).output("y");
    return m;
  };
  onnx_maker few = idle(100, 1), rounds = idle(4000, 1), outputs = idle(100, 200);
  EXPECT_EQ(complaint(few), "");
  EXPECT_EQ(complaint(rounds), most);
  EXPECT_EQ(complaint(outputs), most);
}

TEST_F(onnx_branches, nodes_that_gather_results_count_too) {
  const auto gathering = [](std::int64_t count, const std::string& first) {
    onnx_maker body, m;
    body.input("i", {}).input("go", {}).input("s", {}).output("go").output("s").output("r");
    auto* g = body.model().mutable_graph();
    of_type(g->mutable_input(0), T::INT64);
    of_type(g->mutable_input(1), T::BOOL);
    g->mutable_input(2)->clear_type();
    of_type(g->mutable_output(0), T::BOOL);
    body.node("Neg", {"s"}, {"r"});
    m.input(first, {1}).integers("n", {}, {count}).node("Loop", {"n", "", first}, {"last", "all"});
    give(m, "body", body);
    m.output("last").output("all");
    return m;
  };
  onnx_maker some = gathering(100, "x");
  EXPECT_EQ(complaint(some), "");
  onnx_maker many = gathering(1900, "x");  // without: eight a round, 15,200
  EXPECT_EQ(complaint(many),
            "node 'last' (Loop): sub-graphs and sequences come to more than 16384 nodes, inputs and outputs");
  // Each round names it anew, so that long ones come to gigabytes.
  onnx_maker long_name = gathering(1000, std::string(1 << 18, 'x'));
  const std::string said = complaint(long_name);
  EXPECT_TRUE(said.ends_with("all together exceed 256 MiB and four times the file's (halves as f32)"))
      << said.substr(0, 200);
}

}  // namespace
}  // namespace berth::model
