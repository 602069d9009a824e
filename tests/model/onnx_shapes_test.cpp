// Graphs of ONNX files by shapes alone: what runs nowhere here can still be planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "berth/graph/graph_plan.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "model/complaint.hpp"
#include "model/file.hpp"
#include "model/onnx_maker.hpp"
#include "support/temporary_folder.hpp"

namespace berth::model {
namespace {

using test::onnx_maker;
using T = onnx::TensorProto;

class onnx_shapes : public testing::Test {
 protected:
  shapes_graph read(const std::string& text, const dimensions& bound = {}) const {
    write_file(path_, text);
    return read_onnx_shapes(path_, bound);
  }
  std::string complaint(const std::string& text, const dimensions& bound = {}) const {
    return test::complaint_of(path_, [&] { (void)read(text, bound); });
  }
  static std::map<std::string, bytes> sizes(const shapes_graph& m) {
    std::map<std::string, bytes> by_name;
    for (std::uint32_t v = 0; v < m.names.size(); ++v) by_name[m.names[v]] = m.graph.values()[v].size;
    return by_name;
  }
  static const value& named(const shapes_graph& m, const std::string& name) {
    const auto at = std::find(m.names.begin(), m.names.end(), name) - m.names.begin();
    return m.graph.values()[static_cast<std::size_t>(at)];
  }
  static bytes arena_of(const shapes_graph& m) { return plan_graph(m.graph).value().arena(); }

  support::temporary_folder folder_;
  const std::string path_ = folder_.path("model.onnx");
};

onnx_maker& domain(onnx_maker& m, const std::string& name) {
  auto* nodes = m.model().mutable_graph()->mutable_node();
  nodes->Mutable(nodes->size() - 1)->set_domain(name);
  return m;
}

TEST_F(onnx_shapes, weights_are_listed_with_the_nodes_that_read_them) {
  onnx_maker m;
  m.input("x", {4, 8}).floats("w", {8, 8}, std::vector<float>(64)).floats("b", {4, 8}, std::vector<float>(32));
  m.floats("unread", {5}, std::vector<float>(5));
  m.node("MatMul", {"x", "w"}, {"p"}).node("Add", {"p", "b"}, {"q"}).node("Add", {"b", "b"}, {"folded"});
  m.node("MatMul", {"q", "w"}, {"y"}).node("Add", {"y", "b"}, {"z"}).output("z");
  const shapes_graph read_back = read(m.text());
  ASSERT_EQ(read_back.weights.size(), 2u);
  EXPECT_EQ(read_back.weights[0].name, "w");
  EXPECT_EQ(read_back.weights[0].size, 256u);
  EXPECT_EQ(read_back.weights[0].readers, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(read_back.weights[1].name, "b");
  EXPECT_EQ(read_back.weights[1].size, 128u);
  EXPECT_EQ(read_back.weights[1].readers, (std::vector<std::uint32_t>{1, 3}));
}

TEST_F(onnx_shapes, what_is_random_or_foreign_runs_once) {
  onnx_maker inner;
  inner.node("RandomNormalLike", {"r"}, {"i"}).output("i");
  onnx_maker outer;  // two graphs down
  outer.node("If", {"c"}, {"o"}).output("o");
  const auto branches = [](onnx::NodeProto& n, const onnx::GraphProto& g) {
    for (const char* name : {"then_branch", "else_branch"}) {
      auto* a = n.add_attribute();
      a->set_name(name);
      a->set_type(onnx::AttributeProto::GRAPH);
      *a->mutable_g() = g;
    }
  };
  branches(*outer.model().mutable_graph()->mutable_node(0), inner.model().graph());
  onnx_maker m;
  m.input("x", {8}).input("c", {1}).input("t", {}).node("Relu", {"x"}, {"r"});
  for (const int i : {1, 2}) {
    m.model().mutable_graph()->mutable_input(i)->mutable_type()->mutable_tensor_type()->set_elem_type(T::BOOL);
  }
  for (const char* op : {"RandomNormalLike", "RandomUniformLike", "Bernoulli"}) {
    m.node(op, {"r"}, {op}).declared(op, T::FLOAT, {"8"}).output(op);
  }
  m.node("Frob", {"r"}, {"f"}).declared("f", T::FLOAT, {"8"}).output("f");
  domain(m, "com.someone");
  m.node("If", {"c"}, {"y"}).declared("y", T::FLOAT, {"8"}).output("y");
  branches(*m.model().mutable_graph()->mutable_node(5), outer.model().graph());
  m.node("If", {"c"}, {"plain"}).declared("plain", T::FLOAT, {"8"}).output("plain");
  onnx_maker relu;
  relu.node("Relu", {"r"}, {"i"}).output("i");
  branches(*m.model().mutable_graph()->mutable_node(6), relu.model().graph());
  // Dropout that may train is no view, either.
  const auto flag = [&](const char* name, bool on) {
    auto* t = m.model().mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(T::BOOL);
    t->add_int32_data(on ? 1 : 0);
  };
  flag("on", true);
  flag("off", false);
  for (const char* training : {"t", "on", "off", ""}) {
    const std::string name = std::string{"d"} + training;
    m.node("Dropout", {"r", "", training}, {name}).declared(name, T::FLOAT, {"8"}).output(name);
  }
  m.node("Dropout", {"r"}, {"z"}).output("z");
  const shapes_graph made = read(m.text());
  std::vector<std::string> once;
  for (const std::uint32_t n : made.once) once.push_back(made.graph.nodes()[n].name);
  EXPECT_EQ(once,
            (std::vector<std::string>{"RandomNormalLike", "RandomUniformLike", "Bernoulli", "f", "y", "dt", "don"}));
  for (const char* name : {"doff", "d", "z"}) EXPECT_EQ(named(made, name).kind, value_kind::view) << name;
  // Before opset 7 an attribute says it.
  for (const int test : {0, 1}) {
    onnx_maker old{6};
    old.input("x", {8}).node("Dropout", {"x"}, {"y"}).with("is_test", test).declared("y", T::FLOAT, {"8"}).output("y");
    EXPECT_EQ(read(old.text()).once.size(), test == 0 ? 1u : 0u);
  }
}

TEST_F(onnx_shapes, a_model_without_weights) {
  onnx_maker m;
  m.input("x", {1, 3, 32, 32}).node("Conv", {"x", "w"}, {"c"}).node("Relu", {"c"}, {"r"});
  m.node("Flatten", {"r"}, {"f"}).node("Identity", {"f"}, {"y"}).output("y");
  auto* w = m.model().mutable_graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(T::FLOAT);
  for (const std::int64_t d : {8, 3, 3, 3}) w->add_dims(d);
  const auto is_planned = [&] {
    const shapes_graph g = read(m.text());
    EXPECT_EQ(sizes(g),
              (std::map<std::string, bytes>{{"x", 12288}, {"c", 28800}, {"r", 28800}, {"f", 28800}, {"y", 28800}}));
    EXPECT_EQ(named(g, "y").root, named(g, "r").root);  // views share storage
    EXPECT_EQ(named(g, "y").kind, value_kind::view);
    // Relu writes over the convolution's result.
    EXPECT_EQ(arena_of(g), 12288u + 28800u);
    EXPECT_TRUE(g.notes.empty());
  };
  is_planned();  // an initializer with no data at all
  w->set_data_location(T::EXTERNAL);
  auto* where = w->add_external_data();
  where->set_key("location");
  where->set_value("../../nowhere.bin");
  is_planned();
  where->set_value(folder_.path("a_folder_is_no_file"));
  is_planned();
}

TEST_F(onnx_shapes, any_element_type_but_strings) {
  const std::map<int, bytes> of_eleven{{T::FLOAT16, 22}, {T::DOUBLE, 88}, {T::COMPLEX128, 176},
                                       {T::BOOL, 11},    {17, 11},        {21, 6},
                                       {22, 6},          {23, 6},         {24, 11},
                                       {25, 3},          {26, 3}};
  for (const auto& [type, size] : of_eleven) {
    onnx_maker m;
    m.input("x", {11}).node("Frobnicate", {"x"}, {"y"}).output("y").declared("y", type, {"11"});
    m.model().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(type);
    m.model().mutable_graph()->mutable_output(0)->clear_type();
    EXPECT_EQ(sizes(read(m.text()))["y"], size) << type;
  }
  onnx_maker m;
  m.input("x", {11}).node("Frobnicate", {"x"}, {"y"}).declared("y", T::STRING, {"11"});
  m.node("Frobnicate", {"y"}, {"z"}).declared("z", T::FLOAT, {"2"});
  m.model().mutable_graph()->add_output()->set_name("z");
  const shapes_graph g = read(m.text());
  EXPECT_EQ(sizes(g), (std::map<std::string, bytes>{{"x", 44}, {"z", 8}}));
  EXPECT_TRUE(std::ranges::any_of(g.notes, [](const std::string& note) {
    return note == "node 'y' (Frobnicate), result 'y' is of strings, whose size no shape says: not counted";
  }));
  EXPECT_FALSE(g.counts_all);
  m.declared("q", 99, {"2"}).node("Frobnicate", {"z"}, {"q"});
  m.model().mutable_graph()->add_output()->set_name("q");
  EXPECT_EQ(complaint(m.text()),
            "node 'q' (Frobnicate), result 'q': its element type (99) has no size that is known here");
}

TEST_F(onnx_shapes, unknown_operators_have_the_shapes_that_the_file_gives) {
  onnx_maker m{21};
  m.model().set_ir_version(10);
  m.input("x", {-1, 4}).node("Frobnicate", {"x"}, {"y"}).declared("y", T::INT8, {"n", "k"});
  domain(m, "com.example").node("Relu", {"y"}, {"z"});
  m.model().mutable_graph()->add_output()->set_name("z");
  EXPECT_EQ(complaint(m.text()), "input 'x': dimension 0 ('n') is unknown; say it with --dim n=N");
  EXPECT_EQ(
      complaint(m.text(), {{"n", 3}}),
      "node 'y' (Frobnicate): dimension 1 of its result 'y' is not known (operators of domain 'com.example' are not "
      "known here); say it with --dim k=N");
  const shapes_graph g = read(m.text(), {{"n", 3}, {"k", 5}});
  EXPECT_EQ(sizes(g), (std::map<std::string, bytes>{{"x", 48}, {"y", 15}, {"z", 15}}));
  ASSERT_EQ(g.notes.size(), 1u);
  EXPECT_EQ(g.notes[0],
            "node 'y' (Frobnicate): its results are as the file or the caller says, since operators of domain "
            "'com.example' are not known here");
  EXPECT_TRUE(g.counts_all);
  EXPECT_EQ(complaint(m.text(), {{"n", 3}, {"k", 5}, {"q", 1}}), "nothing has a dimension called 'q'");
}

TEST_F(onnx_shapes, a_shape_that_nobody_gives_can_be_said) {
  onnx_maker m;
  m.input("x", {6}).node("Frobnicate", {"x"}, {"y"}).node("Neg", {"y"}, {"z"});
  m.model().mutable_graph()->add_output()->set_name("z");
  EXPECT_EQ(
      complaint(m.text()),
      "node 'y' (Frobnicate): the shape of its result 'y' is not known (the operator is not known here); give it in "
      "the file (value_info) or say it with --dim y.0=N, y.1=N, ...");
  const shapes_graph g = read(m.text(), {{"y.0", 2}, {"y.1", 5}});
  EXPECT_EQ(sizes(g)["z"], 40u);
  ASSERT_EQ(g.notes.size(), 2u);
  EXPECT_EQ(g.notes[0], "node 'y' (Frobnicate): its result 'y' is taken to be of its first input's element type");
  EXPECT_EQ(g.notes[1],
            "node 'y' (Frobnicate): its results are as the file or the caller says, since the operator is not known "
            "here");
  EXPECT_FALSE(g.counts_all);  // a guess may be too small
}

TEST_F(onnx_shapes, operators_that_a_newer_opset_changed_are_noted) {
  const auto notes = [&](int opset, int ir) {
    onnx_maker m{opset};
    m.model().set_ir_version(ir);
    m.input("x", {4}).node("Neg", {"x"}, {"n"}).node("Celu", {"n"}, {"y"}).output("y");
    return read(m.text()).notes;
  };
  EXPECT_TRUE(notes(25, 13).empty());
  EXPECT_TRUE(notes(27, 13).empty());  // which changed neither
  EXPECT_EQ(notes(28, 13),
            (std::vector<std::string>{"node 'y' (Celu): Celu of opset 28 is read as it was in opset 25"}));
  EXPECT_EQ(notes(99, 13).size(), 2u);
  EXPECT_EQ(notes(25, 14),
            (std::vector<std::string>{"IR version 14 is newer than 13: what it has added is passed over"}));
}

TEST_F(onnx_shapes, nodes_out_of_order_are_planned_as_in_order) {
  onnx_maker m;
  m.input("x", {64}).node("Neg", {"b"}, {"c"}).node("Softmax", {"x"}, {"a"}).node("Softmax", {"a"}, {"b"}).output("c");
  const shapes_graph g = read(m.text());
  std::vector<std::string> names;
  for (const berth::node& n : g.graph.nodes()) names.push_back(n.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(g.node_of, (std::vector<std::uint32_t>{1, 2, 0}));
  EXPECT_EQ(arena_of(g), 512u);
  const std::vector<std::uint32_t> steps{0, 1, 2};
  const std::string sorted = onnx_in_order(path_, m.text(), g, steps);
  EXPECT_EQ(read(sorted).node_of, steps);
}

TEST_F(onnx_shapes, a_size_of_minus_one_is_open) {
  onnx_maker m;
  m.input("p", {4, 3}).node("Relu", {"p"}, {"y"}).declared("y", T::FLOAT, {"n", "3"}).output("y");
  m.model()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(-1);
  m.model()
      .mutable_graph()
      ->mutable_value_info()
      ->Mutable(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(-1);
  EXPECT_EQ(complaint(m.text()), "input 'p': dimension 0 is unknown; say it with --dim p.0=N");
  EXPECT_EQ(sizes(read(m.text(), {{"p.0", 4}})), (std::map<std::string, bytes>{{"p", 48}, {"y", 48}}));
}

TEST_F(onnx_shapes, a_graph_without_nodes) {
  onnx_maker m;
  m.input("x", {4}).output("x");
  EXPECT_EQ(sizes(read(m.text())), (std::map<std::string, bytes>{{"x", 16}}));
}

TEST_F(onnx_shapes, recurrent_operators) {
  onnx_maker m;
  m.input("x", {5, 2, 3})
      .floats("w", {1, 16, 3}, std::vector<float>(48))
      .floats("r", {1, 16, 4}, std::vector<float>(64));
  m.node("LSTM", {"x", "w", "r"}, {"all", "", "last"}).with("hidden_size", 4);
  m.model().mutable_graph()->add_output()->set_name("all");
  m.model().mutable_graph()->add_output()->set_name("last");
  const shapes_graph g = read(m.text());
  EXPECT_EQ(sizes(g), (std::map<std::string, bytes>{{"x", 120}, {"all", 160}, {"last", 32}}));
  EXPECT_EQ(named(g, "all").type.shape, (shape{5, 1, 2, 4}));
  EXPECT_EQ(named(g, "last").type.shape, (shape{1, 2, 4}));
}

// As exporters write a reshape to the batch at hand: shapes are computed from shapes.
TEST_F(onnx_shapes, shapes_that_are_computed_in_the_graph) {
  onnx_maker m;
  m.input("x", {-1, 8}).list("zero", {0}).list("rest", {2, -1});
  m.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"batch"}).with("axis", 0);
  m.node("Concat", {"batch", "rest"}, {"to"}).with("axis", 0).node("Reshape", {"x", "to"}, {"y"}).output("y");
  const shapes_graph g = read(m.text(), {{"n", 3}});
  EXPECT_EQ(named(g, "y").type.shape, (shape{3, 2, 4}));
  EXPECT_EQ(named(g, "y").kind, value_kind::view);
  EXPECT_EQ(g.names.size(), 2u);  // what is computed of shapes takes no memory
}

TEST_F(onnx_shapes, what_sub_graphs_read_is_alive_until_then) {
  onnx_maker m;
  m.input("x", {64}).node("Neg", {"x"}, {"outer"}).node("Neg", {"x"}, {"other"}).node("Neg", {"other"}, {"c"});
  m.node("If", {"c"}, {"y"}).declared("y", T::FLOAT, {"64"});
  auto* nodes = m.model().mutable_graph()->mutable_node();
  auto* branch = nodes->Mutable(nodes->size() - 1)->add_attribute();
  branch->set_name("then_branch");
  branch->set_type(onnx::AttributeProto::GRAPH);
  auto* inner = branch->mutable_g()->add_node();
  inner->set_op_type("Neg");
  inner->add_input("outer");
  inner->add_output("inner");
  m.model().mutable_graph()->add_output()->set_name("y");
  const shapes_graph g = read(m.text());
  const berth::node& last = g.graph.nodes().back();
  EXPECT_EQ(last.inputs.size(), 2u);  // the condition and what the branch reads
  ASSERT_EQ(g.notes.size(), 1u);
  EXPECT_EQ(g.notes[0],
            "node 'y' (If): what its sub-graphs need while they run is not counted: its then_branch gives less");
}

// The data of one with the shape of the other would be read beyond its end.
TEST_F(onnx_shapes, parts_that_nobody_named_are_parts) {
  onnx_maker m;
  m.input("x", {6, 2}).node("Split", {"x"}, {"a", "b", ""}).output("a").output("b");
  EXPECT_EQ(sizes(read(m.text())), (std::map<std::string, bytes>{{"x", 48}, {"a", 16}, {"b", 16}}));
}

TEST_F(onnx_shapes, two_initializers_of_one_name) {
  onnx_maker m;
  m.input("x", {4}).list("w", {1}).list("at", {1000000});
  auto* w = m.model().mutable_graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(T::INT64);
  w->add_dims(2000000);
  m.node("Gather", {"w", "at"}, {"s"}).node("Expand", {"x", "s"}, {"y"}).output("y");
  EXPECT_EQ(complaint(m.text()), "two initializers are called 'w'");
}

TEST_F(onnx_shapes, graphs_that_are_none) {
  const auto made = [](auto&& change) {
    onnx_maker m;
    m.input("x", {4}).node("Neg", {"x"}, {"y"});
    change(m);
    m.model().mutable_graph()->add_output()->set_name("y");
    return m.text();
  };
  EXPECT_EQ(complaint("this is no model"),
            "not an ONNX model, or a truncated one: byte 0: a field is no field, or ends beyond its message");
  EXPECT_EQ(complaint(made([](onnx_maker& m) { m.model().mutable_graph()->mutable_node(0)->set_input(0, "q"); })),
            "node 'y' (Neg): input 'q' comes from no earlier node");
  EXPECT_EQ(complaint(made([](onnx_maker& m) { m.node("Neg", {"x"}, {"y"}); })),
            "node 'y' (Neg): its result 'y' is there already");
  EXPECT_EQ(complaint(made([](onnx_maker& m) { m.model().mutable_graph()->mutable_node(0)->set_output(0, "z"); })),
            "output 'y' is computed by no node");
  EXPECT_EQ(
      complaint(made([](onnx_maker& m) { m.node("Frob", {"y"}, {"q"}).declared("q", T::FLOAT, {"-4"}).output("q"); })),
      "node 'q' (Frob): dimension 0 of its result 'q' is not known (the operator is not known here); say it with "
      "--dim -4=N");
  const auto sized = [&](const std::vector<std::string>& s) {
    return complaint(made([&](onnx_maker& m) { m.node("Frob", {"y"}, {"q"}).declared("q", T::FLOAT, s).output("q"); }));
  };
  EXPECT_NE(sized({"1073741825"}).find("exceeds 2^30"), std::string::npos);
  EXPECT_NE(sized({"1073741824", "1073741824"}).find("exceeds 2^59"), std::string::npos);
  EXPECT_NE(sized(std::vector<std::string>(40, "1")).find("more than 32 dimensions"), std::string::npos);
  EXPECT_EQ(sized({"0"}), "");
  onnx_maker reshape;
  reshape.input("x", {4})
      .input("to", {1})
      .node("Reshape", {"x", "to"}, {"y"})
      .output("y")
      .declared("y", T::FLOAT, {"5"});
  reshape.model().mutable_graph()->mutable_output(0)->clear_type();
  EXPECT_EQ(complaint(reshape.text()), "node 'y' (Reshape): its result is not of its input's size");
}

TEST_F(onnx_shapes, every_truncation_is_an_error_or_a_graph) {
  onnx_maker m;
  m.input("x", {1, 3, 8, 8}).floats("w", {2, 3, 3, 3}, std::vector<float>(54)).node("Conv", {"x", "w"}, {"c"});
  m.node("Frob", {"c"}, {"y"}).declared("y", T::FLOAT, {"2"});
  m.model().mutable_graph()->add_output()->set_name("y");
  const std::string whole = m.text();
  EXPECT_EQ(complaint(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) (void)complaint(whole.substr(0, size));
  std::uint32_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string changed = whole;
    for (int k = 0; k < 3; ++k) {
      state = state * 1664525u + 1013904223u;
      changed[(state >> 8) % changed.size()] = static_cast<char>(state >> 24);
    }
    (void)complaint(changed);
  }
}

}  // namespace
}  // namespace berth::model
