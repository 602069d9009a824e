// Sub-graphs: If with a condition that is known, or known at run time only; Loop with a number of rounds that is known.
#include <gtest/gtest.h>

#include "berth/model/builtin.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/program.hpp"
#include "model/complaint.hpp"
#include "model/file.hpp"
#include "model/onnx_maker.hpp"
#include "model/running.hpp"
#include "support/temporary_folder.hpp"

namespace berth::model {
namespace {

using test::onnx_maker;
using T = onnx::TensorProto;

// The last node's attribute `name`: the graph that `body` was made as.
void give(onnx_maker& m, const std::string& name, onnx_maker& body) {
  auto* nodes = m.model().mutable_graph()->mutable_node();
  auto* a = nodes->Mutable(nodes->size() - 1)->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::GRAPH);
  *a->mutable_g() = body.model().graph();
}

void of_type(onnx::ValueInfoProto* v, int type) {
  v->mutable_type()->mutable_tensor_type()->set_elem_type(type);
}

class onnx_branches : public testing::Test {
 protected:
  std::vector<std::vector<float>> run(onnx_maker& m, std::vector<std::vector<float>> inputs) const {
    write_file(path_, m.text());
    pool memory{device::host()};
    stream s{device::host()};
    auto made = runner::create(lower(read_onnx(path_)), memory, s).value();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      s.copy(made.input(i), inputs[i].data(), inputs[i].size() * sizeof(float)).value();
    }
    made.run().value();
    s.synchronize().value();
    std::vector<std::vector<float>> outputs;
    for (std::size_t i = 0; i < made.get_program().outputs.size(); ++i) {
      const auto count = static_cast<std::size_t>(test::count_of(made.get_program().outputs[i].shape));
      outputs.emplace_back(made.output(i), made.output(i) + count);
    }
    return outputs;
  }
  std::string complaint(onnx_maker& m) const {
    write_file(path_, m.text());
    return test::complaint_of(path_, [&] { (void)lower(read_onnx(path_)); });
  }

  support::temporary_folder folder_;
  const std::string path_ = folder_.path("model.onnx");
};

using rows = std::vector<std::vector<float>>;

// y = x + w where the sum of x is above the limit, else y = x * w; both branches call their own constant w.
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
            "node 'y' (If): its condition is known at run time only, and its branches give 3 and 2 for result 0");
}

// What stands for a shape or a version is known: the other branch needs not even fit.
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

TEST_F(onnx_branches, a_loop_that_is_not_known_is_refused_with_its_reason) {
  onnx_maker depends = rounds(4, "x");
  EXPECT_EQ(complaint(depends), "node 'last' (Loop): its condition is not known before it runs");
  onnx_maker none = rounds(0);
  EXPECT_EQ(complaint(none), "node 'last' (Loop): it runs not once, so that 'all' is empty");
  onnx_maker endless = rounds(std::int64_t{1} << 60);
  EXPECT_EQ(complaint(endless), "node 'last' (Loop): sub-graphs come to more than 16384 nodes");
  onnx_maker open = rounds(4);
  open.model().mutable_graph()->mutable_node(0)->set_input(0, "");
  EXPECT_EQ(complaint(open), "node 'last' (Loop): how often it runs is not known before it runs");
}

}  // namespace
}  // namespace berth::model
