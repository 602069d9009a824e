// Files of ONNX with their nodes in another order, read back by libonnx.
#include <gtest/gtest.h>
#include <onnx/checker.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "model/complaint.hpp"
#include "model/onnx_maker.hpp"

namespace berth::model {
namespace {

using test::onnx_maker;

// A random graph of sums and reshapes, with nodes that nobody reads and shapes computed in the graph.
onnx_maker random_model(std::uint32_t seed) {
  std::mt19937 random{seed};
  onnx_maker m;
  m.input("x", {4, 8}).list("flat", {-1}).list("back", {4, 8});
  std::vector<std::string> made{"x"};
  const auto any = [&] { return made[random() % made.size()]; };
  for (int i = 0; i < 24; ++i) {
    const std::string name = "v" + std::to_string(i);
    switch (random() % 5) {
      case 0: m.node("Reshape", {any(), "flat"}, {name + "f"}).node("Reshape", {name + "f", "back"}, {name}); break;
      case 1: m.node("Shape", {any()}, {name + "s"}).node("Reshape", {any(), name + "s"}, {name}); break;
      case 2: m.node("Relu", {any()}, {name}); break;
      default: m.node("Add", {any(), any()}, {name}); break;
    }
    made.push_back(name);
  }
  for (int i = 17; i < 23; ++i) {
    m.node("Add", {i == 17 ? "v23" : "s" + std::to_string(i), "v" + std::to_string(i)}, {"s" + std::to_string(i + 1)});
  }
  m.node("Neg", {"s23"}, {"y"}).output("y").node("Neg", {"v3"}, {"nobody"});
  return m;
}

// An order of the nodes that keeps the reads, and is not the given one where there is another.
std::vector<std::uint32_t> another_order(const shapes_graph& read, std::uint32_t seed) {
  const graph& g = read.graph;
  std::mt19937 random{seed};
  std::vector<std::uint32_t> steps;
  std::vector<bool> ran(g.nodes().size(), false);
  while (steps.size() < ran.size()) {
    const auto n = static_cast<std::uint32_t>(random() % ran.size());
    const auto& inputs = g.nodes()[n].inputs;
    const bool ready = std::ranges::all_of(inputs,
                                           [&](value_id v) {
                                             const value& root = g[g[v].root];
                                             return root.kind != value_kind::result || ran[root.producer.index];
                                           }) &&
                       std::ranges::all_of(read.before, [&](auto pair) { return pair.second != n || ran[pair.first]; });
    if (ran[n] || !ready) continue;
    ran[n] = true;
    steps.push_back(n);
  }
  return steps;
}

TEST(OnnxInOrder, MovesNodesAndNothingElse) {
  int moved = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    onnx_maker m = random_model(seed);
    // What the reader does not know stays too.
    m.model().set_producer_name("somebody");
    m.model().mutable_graph()->GetReflection()->MutableUnknownFields(m.model().mutable_graph())->AddVarint(500, 7);
    const std::string file = m.text();
    const shapes_graph read = read_onnx_shapes("m.onnx", file, {});
    std::vector<std::uint32_t> given(read.graph.nodes().size());
    std::iota(given.begin(), given.end(), 0u);
    EXPECT_EQ(onnx_in_order("m.onnx", file, read, given), file) << seed;

    const auto steps = another_order(read, seed);
    const std::string text = onnx_in_order("m.onnx", file, read, steps);
    moved += text != file ? 1 : 0;
    onnx::ModelProto made;
    ASSERT_TRUE(made.ParseFromString(text)) << seed;
    EXPECT_NO_THROW(onnx::checker::check_model(made)) << seed;  // in order, for one
    const shapes_graph again = read_onnx_shapes("m.onnx", text, {});
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(again.graph.nodes()[i].name, read.graph.nodes()[steps[i]].name) << seed;
    }
    const auto sorted = [](onnx::ModelProto p) {
      auto& nodes = *p.mutable_graph()->mutable_node();
      std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.output(0) < b.output(0); });
      return p.SerializeAsString();
    };
    EXPECT_EQ(sorted(made), sorted(m.model())) << seed;
  }
  EXPECT_GT(moved, 150);
}

TEST(OnnxInOrder, WhatCannotBeOrdered) {
  // `s` takes no memory, so that the graph does not know of it: b waits for a.
  onnx_maker m;
  m.input("x", {4}).node("Two", {"x"}, {"a", "s"}).node("One", {"x", "s"}, {"b"}).node("Add", {"a", "b"}, {"y"});
  m.declared("a", onnx::TensorProto::FLOAT, {"4"}).declared("b", onnx::TensorProto::FLOAT, {"4"});
  m.declared("s", onnx::TensorProto::STRING, {"4"}).output("y");
  const std::string file = m.text();
  const shapes_graph read = read_onnx_shapes("m.onnx", file, {});
  const std::vector<std::uint32_t> steps{1, 0, 2}, twice{0, 0, 2};
  EXPECT_EQ(read.before, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}}));
  EXPECT_EQ(test::complaint_of("m.onnx", [&] { (void)onnx_in_order("m.onnx", file, read, steps); }),
            "node 'b' would run before 'a', which it needs by a value that takes no memory");
  EXPECT_DEATH((void)onnx_in_order("m.onnx", file, read, twice), "each node stands there once");
  // Protobuf joins the parts of a message that stands there twice.
  onnx_maker more;
  more.node("Neg", {"y"}, {"z"}).output("z");
  const std::string pieces = file + more.text();
  const shapes_graph whole = read_onnx_shapes("m.onnx", pieces, {});
  const std::vector<std::uint32_t> given{0, 1, 2, 3};
  ASSERT_EQ(whole.graph.nodes().size(), 4u);
  EXPECT_EQ(test::complaint_of("m.onnx", [&] { (void)onnx_in_order("m.onnx", pieces, whole, given); }),
            "its graph is written in pieces, which cannot be ordered anew");
}

}  // namespace
}  // namespace berth::model
