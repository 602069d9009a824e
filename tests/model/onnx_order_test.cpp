// Files of ONNX with their nodes in another order, read back by the tests' own reader.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "berth/schedule/steps.hpp"
#include "model/complaint.hpp"
#include "model/onnx_maker.hpp"
#include "model/running.hpp"

namespace berth::model {
namespace {

using test::onnx_maker;

// Returns the first name that is made twice, or read before it is made; "" where there is none.
std::string made_before_read(const onnx::ModelProto& m) {
  std::set<std::string> made{""};
  for (const auto& v : m.graph().input()) made.insert(v.name());
  for (const auto& t : m.graph().initializer()) made.insert(t.name());
  for (const auto& n : m.graph().node()) {
    for (const auto& name : n.input()) {
      if (!made.contains(name)) return name;
    }
    for (const auto& name : n.output()) {
      if (!name.empty() && !made.insert(name).second) return name;
    }
  }
  return "";
}

// Returns a random graph of sums and reshapes, with nodes without readers and shapes computed in the graph.
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
  const auto count = static_cast<std::uint32_t>(g.nodes().size());
  std::set<std::pair<std::uint32_t, std::uint32_t>> pairs{read.before.begin(), read.before.end()};
  for (std::uint32_t n = 0; n < count; ++n) {
    for (const value_id v : g.nodes()[n].inputs) {
      const value& root = g[g[v].root];
      if (root.kind == value_kind::result) pairs.emplace(root.producer.index, n);
    }
  }
  std::vector<std::vector<std::uint32_t>> after(count);
  std::vector<std::size_t> waits(count);
  for (const auto& [first, second] : pairs) {
    after[first].push_back(second);
    ++waits[second];
  }
  std::vector<std::uint32_t> steps, ready;
  for (std::uint32_t n = 0; n < count; ++n) {
    if (waits[n] == 0) ready.push_back(n);
  }
  std::mt19937 random{seed};
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const std::uint32_t n = ready.back();
    ready.pop_back();
    steps.push_back(n);
    for (const std::uint32_t next : after[n]) {
      if (--waits[next] == 0) ready.push_back(next);
    }
  }
  return steps;
}

TEST(OnnxInOrder, MovesNodesAndNothingElse) {
  int moved = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    onnx_maker m = random_model(seed);
    // Fields unknown to the reader stay too.
    m.model().set_producer_name("somebody");
    m.model().mutable_graph()->add_unknown(500, 7);
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
    EXPECT_EQ(made_before_read(made), "") << seed;
    const shapes_graph again = read_onnx_shapes("m.onnx", text, {});
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(again.graph.nodes()[i].name, read.graph.nodes()[steps[i]].name) << seed;
    }
    const auto sorted = [](onnx::ModelProto p) {
      auto& nodes = *p.mutable_graph()->mutable_node();
      nodes.sort([](const auto& a, const auto& b) { return a.output(0) < b.output(0); });
      return p.SerializeAsString();
    };
    EXPECT_EQ(sorted(made), sorted(m.model())) << seed;
  }
  EXPECT_GT(moved, 150);
}

// Returns the steps with some nodes again, anywhere behind their first run; every run has a reader.
std::vector<std::uint32_t> with_repeats(const graph& g, std::vector<std::uint32_t> steps, std::uint32_t seed) {
  std::mt19937 random{seed};
  for (int i = 0; i < 12; ++i) {
    const std::size_t from = random() % steps.size();
    const std::size_t to = from + 1 + random() % (steps.size() - from);
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(to), steps[from]);
  }
  for (bool unread = true; unread;) {
    unread = false;
    const auto made = schedule::rewrite(g, steps).value();
    std::set<std::uint32_t> read;
    for (const berth::node& n : made.graph.nodes()) {
      for (const value_id v : n.inputs) read.insert(made.graph[v].root.index);
    }
    for (std::uint32_t i = 0; i < steps.size() && !unread; ++i) {
      const value_id v = made.graph.nodes()[i].outputs[0];
      unread = !made.graph[v].output && !read.contains(v.index) && std::ranges::count(steps, steps[i]) > 1;
      if (unread) steps.erase(steps.begin() + i);
    }
  }
  return steps;
}

// A file with repeated nodes passes the checker and has the nodes of the steps. Each reads the last run before it, and
// the result is the same.
TEST(OnnxInOrder, WritesWhatRunsAgain) {
  int views = 0, runs = 0;
  std::size_t repeats = 0;
  for (std::uint32_t seed = 0; seed < 80; ++seed) {
    onnx_maker m = random_model(seed);
    m.output("v5").output("v11f");  // wanted in the end, and of a view where there is one
    auto& outputs = *m.model().mutable_graph()->mutable_output();
    const auto& nodes = m.model().graph().node();
    if (std::ranges::none_of(nodes, [](const auto& n) { return n.output(0) == "v11f"; }))
      outputs.RemoveLast();
    else
      ++views;
    const std::string file = m.text();
    const shapes_graph read = read_onnx_shapes("m.onnx", file, {});
    const auto steps = with_repeats(read.graph, another_order(read, seed), seed);
    if (schedule::verify_steps(read.graph, steps, {}, read.before)) continue;  // a first run went, and a pair with it
    const std::string text = onnx_in_order("m.onnx", file, read, steps);
    onnx::ModelProto made;
    ASSERT_TRUE(made.ParseFromString(text)) << seed;
    ASSERT_EQ(made_before_read(made), "") << seed;
    const shapes_graph again = read_onnx_shapes("m.onnx", text, {});
    const auto want = schedule::rewrite(read.graph, steps);
    repeats += steps.size() - read.graph.nodes().size();
    ASSERT_TRUE(want) << seed;
    ASSERT_EQ(again.graph.nodes().size(), steps.size()) << seed;
    const auto made_by = [](const graph& g, value_id v) { return g[g[v].root].producer; };
    for (std::uint32_t i = 0; i < steps.size(); ++i) {
      const berth::node &is = again.graph.nodes()[i], &should = want->graph.nodes()[i];
      EXPECT_EQ(is.op, should.op) << seed;
      ASSERT_EQ(is.inputs.size(), should.inputs.size()) << seed;
      for (std::size_t k = 0; k < is.inputs.size(); ++k) {
        EXPECT_EQ(made_by(again.graph, is.inputs[k]), made_by(want->graph, should.inputs[k])) << seed;
      }
    }
    for (const auto& o : m.model().graph().output()) {  // the last run of each
      const auto of = [&](const shapes_graph& r) {
        const auto it = std::ranges::find(r.names, o.name());
        return value_id{static_cast<std::uint32_t>(it - r.names.begin())};
      };
      EXPECT_TRUE(again.graph[again.graph[of(again)].root].output) << seed << o.name();
      EXPECT_EQ(made_by(again.graph, of(again)), made_by(want->graph, want->value_of[of(read).index])) << seed;
    }
    if (seed % 10 != 0) continue;  // running takes a thousand times as long
    ++runs;
    const auto given = read_onnx("m.onnx", file, {});
    const auto inputs = test::inputs_of(given);
    const test::ran once = test::run(given, inputs), twice = test::run(read_onnx("m.onnx", text, {}), inputs);
    ASSERT_EQ(once.outputs.size(), twice.outputs.size()) << seed;
    for (std::size_t i = 0; i < once.outputs.size(); ++i) {
      EXPECT_EQ(once.outputs[i].values, twice.outputs[i].values) << seed;
    }
  }
  EXPECT_GT(views, 8);
  EXPECT_GT(runs, 2);
  EXPECT_GT(repeats, 60u);
}

// A branch reads `a` of the graph around it, which has run again by then; names of the second run are taken already.
TEST(OnnxInOrder, SubGraphsReadTheLastRun) {
  onnx_maker branch;
  branch.node("Neg", {"a"}, {"inner"}).output("inner");
  onnx_maker m;
  m.input("x", {4}).input("c", {1}).node("Relu", {"x"}, {"a"}).node("Neg", {"a"}, {"a#2"}).node("If", {"c"}, {"y"});
  m.model().mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::BOOL);
  for (const char* name : {"then_branch", "else_branch"}) {
    auto* a = m.model().mutable_graph()->mutable_node(2)->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::GRAPH);
    *a->mutable_g() = branch.model().graph();
  }
  m.declared("y", onnx::TensorProto::FLOAT, {"4"}).output("y").output("a#2");
  const std::string file = m.text();
  const shapes_graph read = read_onnx_shapes("m.onnx", file, {});
  ASSERT_EQ(read.graph.nodes().size(), 3u);
  onnx::ModelProto made;
  const std::vector<std::uint32_t> steps{0, 1, 0, 2};
  ASSERT_TRUE(made.ParseFromString(onnx_in_order("m.onnx", file, read, steps)));
  const auto& nodes = made.graph().node();
  ASSERT_EQ(nodes.size(), 4);
  EXPECT_EQ(nodes[2].output(0), "a#2'");
  EXPECT_EQ(nodes[1].output(0), "a#2");
  for (const auto& a : nodes[3].attribute()) EXPECT_EQ(a.g().node(0).input(0), "a#2'");
}

// Neither a sparse constant nor another node has the name that what runs again gets.
TEST(OnnxInOrder, NamesMadeAreNobodyElses) {
  onnx_maker m;
  m.input("x", {4}).node("Relu", {"x"}, {"a"}).node("Frob", {"a", "a#2"}, {"b"}).node("Add", {"a", "b"}, {"y"});
  m.declared("b", onnx::TensorProto::FLOAT, {"4"}).output("y");
  auto* g = m.model().mutable_graph();
  auto* sparse = g->add_sparse_initializer();
  sparse->mutable_values()->set_name("a#2");
  sparse->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  g->mutable_node(0)->set_name("n");
  g->mutable_node(1)->set_name("n#2");
  const std::string file = m.text();
  const shapes_graph read = read_onnx_shapes("m.onnx", file, {});
  onnx::ModelProto made;
  const std::vector<std::uint32_t> steps{0, 1, 0, 2};
  ASSERT_TRUE(made.ParseFromString(onnx_in_order("m.onnx", file, read, steps)));
  ASSERT_EQ(made.graph().node_size(), 4);
  EXPECT_EQ(made.graph().node(2).output(0), "a#2'");
  EXPECT_EQ(made.graph().node(2).name(), "n#2'");
}

// Views of nodes that run again are made anew. A foreign node is not, though only its strings are wanted.
TEST(OnnxInOrder, WhatRunsOnceIsNotMadeAnew) {
  onnx_maker m;
  m.input("x", {4}).node("Relu", {"x"}, {"a"}).node("Identity", {"a"}, {"v"}).node("Tell", {"a"}, {"s"});
  m.model().mutable_graph()->mutable_node(2)->set_domain("com.someone");
  m.model().add_opset_import()->set_domain("com.someone");
  m.node("Both", {"v", "s"}, {"b"}).node("Add", {"b", "v"}, {"y"}).output("y");
  m.declared("s", onnx::TensorProto::STRING, {"1"}).declared("b", onnx::TensorProto::FLOAT, {"4"});
  const std::string file = m.text();
  const shapes_graph read = read_onnx_shapes("m.onnx", file, {});
  ASSERT_EQ(read.graph.nodes().size(), 3u);
  onnx::ModelProto made;
  const std::vector<std::uint32_t> steps{0, 1, 0, 2, 1, 2};
  ASSERT_TRUE(made.ParseFromString(onnx_in_order("m.onnx", file, read, steps)));
  const auto runs = [&](const char* op) {
    return std::ranges::count_if(made.graph().node(), [&](const auto& n) { return n.op_type() == op; });
  };
  EXPECT_EQ(runs("Relu"), 2);
  EXPECT_EQ(runs("Identity"), 2);
  EXPECT_EQ(runs("Tell"), 1);
}

// Every `one` needs all sums of shapes before it: as pairs, each with each, they would be the square of the file.
TEST(OnnxInOrder, WhatWaitsForManyIsNoSquareOfTheFile) {
  const auto model = [](int nodes) {
    onnx_maker m;
    m.input("x", {4}).node("Shape", {"x"}, {"a"});
    std::string sum = "a";
    for (int i = 0; i < nodes; ++i) {
      const std::string n = std::to_string(i);
      m.node("Relu", {"x"}, {"v" + n}).node("Shape", {"v" + n}, {"s" + n}).node("Add", {sum, "s" + n}, {"a" + n});
      sum = "a" + n;
      m.node("One", {"x", sum}, {"w" + n}).output("v" + n).output("w" + n);
      m.declared("w" + n, onnx::TensorProto::FLOAT, {"4"});
    }
    return m.text();
  };
  for (const int nodes : {10, 60, 200}) {
    const std::string file = model(nodes);
    const shapes_graph read = read_onnx_shapes("m.onnx", file, {});
    EXPECT_LE(read.before.size(), 40 * read.graph.nodes().size());
    if (nodes == 10) {
      EXPECT_EQ(read.before.size(), 55u);  // each with each
    }
    for (const auto& [first, second] : read.before) EXPECT_LT(first, second);
    std::vector<std::uint32_t> steps(read.graph.nodes().size());
    std::iota(steps.begin(), steps.end(), 0u);
    std::stable_partition(steps.begin(), steps.end(), [](std::uint32_t n) { return n % 2 == 0; });
    EXPECT_NO_THROW((void)onnx_in_order("m.onnx", file, read, steps)) << nodes;
    // Any order that keeps the pairs keeps the file's reads.
    for (std::uint32_t seed = 0; seed < 8; ++seed) {
      EXPECT_NO_THROW((void)onnx_in_order("m.onnx", file, read, another_order(read, seed))) << nodes;
    }
  }
}

TEST(OnnxInOrder, WhatCannotBeOrdered) {
  // `s` takes no memory, so that the graph does not know of it: b waits for a.
  onnx_maker m;
  m.input("x", {4}).node("Two", {"x"}, {"a", "s"}).node("One", {"x", "s"}, {"b"}).node("Add", {"a", "b"}, {"y"});
  m.declared("a", onnx::TensorProto::FLOAT, {"4"}).declared("b", onnx::TensorProto::FLOAT, {"4"});
  m.declared("s", onnx::TensorProto::STRING, {"4"}).output("y");
  const std::string file = m.text();
  const shapes_graph read = read_onnx_shapes("m.onnx", file, {});
  const std::vector<std::uint32_t> steps{1, 0, 2}, short_of{0, 0, 2};
  EXPECT_EQ(read.before, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}}));
  EXPECT_EQ(test::complaint_of("m.onnx", [&] { (void)onnx_in_order("m.onnx", file, read, steps); }),
            "node 'b' would run before 'a', which it needs by a value that takes no memory");
  EXPECT_DEATH((void)onnx_in_order("m.onnx", file, read, short_of), "each node stands there");
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
