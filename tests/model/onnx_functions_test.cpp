// Local functions: their bodies run and are planned in the place of the nodes that call them.
#include "model/onnx_models.hpp"
#include "support/memory_limit.hpp"

namespace berth::model {
namespace {

using test::onnx_maker;
using rows = std::vector<std::vector<float>>;

class onnx_functions : public test::onnx_models {
 protected:
  static void SetUpTestSuite() { support::limit_memory(rlim_t{1} << 30); }
};

onnx::FunctionProto* function(onnx_maker& m, const std::string& name, const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs) {
  auto* f = m.model().add_functions();
  f->set_name(name);
  f->set_domain("mine");
  for (const auto& each : inputs) f->add_input(each);
  for (const auto& each : outputs) f->add_output(each);
  f->add_opset_import()->set_version(13);
  return f;
}
onnx::NodeProto* node(onnx::FunctionProto* f, const std::string& op, const std::vector<std::string>& inputs,
                      const std::string& output) {
  auto* n = f->add_node();
  n->set_op_type(op);
  for (const auto& each : inputs) n->add_input(each);
  n->add_output(output);
  return n;
}
void refer(onnx::NodeProto* n, const std::string& name, int type, const std::string& to) {
  auto* a = n->add_attribute();
  a->set_name(name);
  a->set_type(type);
  a->set_ref_attr_name(to);
}
onnx_maker& call(onnx_maker& m, const std::string& name, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs) {
  m.node(name, inputs, outputs);
  auto* nodes = m.model().mutable_graph()->mutable_node();
  nodes->Mutable(nodes->size() - 1)->set_domain("mine");
  return m;
}

// twice(a) = a + a; leak(a) = LeakyRelu(twice(a)) with alpha as the caller says, or 0.5.
onnx_maker leaking() {
  onnx_maker m;
  node(function(m, "twice", {"a"}, {"r"}), "Add", {"a", "a"}, "r");
  auto* f = function(m, "leak", {"a"}, {"r"});
  node(f, "twice", {"a"}, "t")->set_domain("mine");
  refer(node(f, "LeakyRelu", {"t"}, "r"), "alpha", onnx::AttributeProto::FLOAT, "slope");
  auto* otherwise = f->add_attribute_proto();
  otherwise->set_name("slope");
  otherwise->set_type(onnx::AttributeProto::FLOAT);
  otherwise->set_f(0.5f);
  return m;
}

TEST_F(onnx_functions, bodies_run_in_the_place_of_calls) {
  onnx_maker m = leaking();
  m.input("x", {3});
  call(m, "leak", {"x"}, {"y"});
  call(m, "leak", {"y"}, {"z"});
  auto* nodes = m.model().mutable_graph()->mutable_node();
  auto* slope = nodes->Mutable(1)->add_attribute();
  slope->set_name("slope");
  slope->set_type(onnx::AttributeProto::FLOAT);
  slope->set_f(0.25f);
  m.output("z");
  EXPECT_EQ(run(m, {{1, -1, -4}}), (rows{{4, -0.5f, -2}}));
  const shapes_graph g = read_onnx_shapes("m.onnx", m.text(), {});
  EXPECT_EQ(g.graph.nodes().size(), 4u);
  EXPECT_EQ(g.node_of, (std::vector<std::uint32_t>{0, 0, 1, 1}));
  std::vector<std::uint32_t> steps{0, 1, 2, 3};
  EXPECT_EQ(test::complaint_of("m.onnx", [&] { (void)onnx_in_order("m.onnx", m.text(), g, steps); }),
            "it has local functions, whose nodes cannot be ordered anew");
}

TEST_F(onnx_functions, a_function_may_pass_an_input_on) {
  onnx_maker m;
  node(function(m, "both", {"a"}, {"a", "n"}), "Neg", {"a"}, "n");
  m.input("x", {2});
  call(m, "both", {"x"}, {"same", "minus"});
  m.node("Sub", {"same", "minus"}, {"y"}).output("y");
  EXPECT_EQ(run(m, {{1, 3}}), (rows{{2, 6}}));
}

TEST_F(onnx_functions, calls_without_an_end_are_refused) {
  onnx_maker m;
  node(function(m, "f", {"a"}, {"r"}), "g", {"a"}, "r")->set_domain("mine");
  node(function(m, "g", {"a"}, {"r"}), "f", {"a"}, "r")->set_domain("mine");
  m.input("x", {2});
  call(m, "f", {"x"}, {"y"}).output("y");
  EXPECT_NE(complaint(m).find("local functions call each other without an end"), std::string::npos) << complaint(m);
}

// Each calls the next one twice: without a bound two to the power of thirty nodes.
TEST_F(onnx_functions, bodies_have_a_bound) {
  onnx_maker m;
  for (int i = 0; i < 30; ++i) {
    auto* f = function(m, "f" + std::to_string(i), {"a"}, {"r"});
    const std::string next = "f" + std::to_string(i + 1);
    node(f, i == 29 ? "Neg" : next, {"a"}, "t")->set_domain(i == 29 ? "" : "mine");
    node(f, i == 29 ? "Neg" : next, {"t"}, "r")->set_domain(i == 29 ? "" : "mine");
  }
  m.input("x", {2});
  call(m, "f0", {"x"}, {"y"}).output("y");
  EXPECT_NE(complaint(m).find("local functions come to more than 65536 nodes"), std::string::npos) << complaint(m);
}

// A chain of 300 calls of function f, which has one input and one result.
std::string called_often(onnx_maker& m) {
  m.input("v0", {2});
  for (int i = 0; i < 300; ++i) call(m, "f", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)});
  return m.output("v300").text();
}
// Everything that a copy of a body takes is charged, and before the copy is made.
TEST_F(onnx_functions, copies_of_attributes_have_a_bound) {
  const std::string refused = "local functions come to more than 64 MiB and 16 times the file";
  using change = void (*)(onnx::AttributeProto*);
  const change all[] = {
      [](onnx::AttributeProto* a) {
        for (int i = 0; i < 100'000; ++i) a->add_strings("");
      },
      [](onnx::AttributeProto* a) { a->set_s(std::string(500'000, 's')); },
      [](onnx::AttributeProto* a) { a->set_name(std::string(500'000, 's')); },
      [](onnx::AttributeProto* a) { a->mutable_t()->set_raw_data(std::string(500'000, 'r')); },
      [](onnx::AttributeProto* a) {
        for (int i = 0; i < 100'000; ++i) a->mutable_t()->add_uint64_data(1);
      },
      [](onnx::AttributeProto* a) {
        for (int i = 0; i < 100'000; ++i) a->mutable_t()->add_dims(1);
      },
      [](onnx::AttributeProto* a) {
        for (int i = 0; i < 20'000; ++i) a->mutable_t()->add_external_data();
      },
      [](onnx::AttributeProto* a) {
        for (int i = 0; i < 20'000; ++i) a->mutable_g()->add_input();
      },
      [](onnx::AttributeProto* a) {
        for (int i = 0; i < 20'000; ++i) a->mutable_g()->add_value_info();
      },
      [](onnx::AttributeProto* a) {
        for (int i = 0; i < 20'000; ++i) a->mutable_g()->add_sparse_initializer();
      },
      [](onnx::AttributeProto* a) { a->mutable_g()->add_node()->set_op_type(std::string(500'000, 'o')); },
  };
  for (std::size_t i = 0; i < std::size(all); ++i) {
    onnx_maker m;
    all[i](node(function(m, "f", {"a"}, {"r"}), "Neg", {"a"}, "r")->add_attribute());
    const std::string text = called_often(m);
    const std::string said = test::complaint_of("m.onnx", [&] { (void)read_onnx_shapes("m.onnx", text, {}); });
    EXPECT_NE(said.find(refused), std::string::npos) << i << ": " << said;
  }
}

// A short name in a function stands for the long one of its caller, here a hundred thousand times.
TEST_F(onnx_functions, names_that_grow_have_a_bound) {
  onnx_maker m;
  auto* n = node(function(m, "f", {"a"}, {"r"}), "Max", {"a"}, "r");
  for (int i = 0; i < 100'000; ++i) n->add_input("a");
  const std::string name(100'000, 'x');
  m.input(name, {2});
  call(m, "f", {name}, {"y"}).output("y");
  EXPECT_NE(complaint(m).find("local functions come to more than 64 MiB"), std::string::npos);

  onnx_maker inner;
  const std::string long_one(100'000, 'f');
  auto* a = node(function(inner, long_one, {"a"}, {"r"}), "If", {"a"}, "r")->add_attribute();
  a->set_name("then_branch");
  for (int i = 0; i < 10'000; ++i) a->mutable_g()->add_initializer();
  for (int i = 0; i < 10'000; ++i) a->mutable_g()->add_input();
  inner.input("x", {2});
  call(inner, long_one, {"x"}, {"y"}).output("y");
  EXPECT_NE(complaint(inner).find("local functions come to more than 64 MiB"), std::string::npos);
}

// Each call goes over all inputs, though its function has no node.
TEST_F(onnx_functions, inputs_of_calls_have_a_bound) {
  onnx_maker m;
  function(m, "f", std::vector<std::string>(20'000), {});
  m.input("x", {2});
  for (int i = 0; i < 20'000; ++i) call(m, "f", {}, {});
  m.node("Neg", {"x"}, {"y"}).output("y");
  EXPECT_NE(complaint(m).find("local functions come to more than 64 MiB"), std::string::npos) << complaint(m);
}

// The function's own x, y and c are others than the caller's, which the branch reads and makes.
TEST_F(onnx_functions, a_graph_of_the_caller_reads_the_names_around_the_call) {
  onnx_maker m;
  auto* f = function(m, "either", {"c", "x"}, {"r"});
  node(f, "Neg", {"x"}, "y");
  auto* choice = node(f, "If", {"c"}, "t");
  refer(choice, "then_branch", onnx::AttributeProto::GRAPH, "branch");
  auto* own = choice->add_attribute();
  own->set_name("else_branch");
  own->set_type(onnx::AttributeProto::GRAPH);
  const auto fill = [](onnx::GraphProto* g, const std::string& op, const std::string& read) {
    g->set_name("g");
    auto* n = g->add_node();
    n->set_op_type(op);
    n->add_input(read);
    n->add_output("b");
    g->add_output()->set_name("b");
  };
  fill(own->mutable_g(), "Identity", "y");
  node(f, "Add", {"t", "y"}, "r");
  m.input("x", {2}).input("other", {2});
  for (const bool is : {true, false}) {
    const std::string of = is ? "yes" : "no";
    auto* t = m.model().mutable_graph()->add_initializer();
    t->set_name(of);
    t->set_data_type(onnx::TensorProto::BOOL);
    t->set_raw_data(std::string(1, is ? '\1' : '\0'));
    call(m, "either", {of, "other"}, {"z" + of}).output("z" + of);
    auto* nodes = m.model().mutable_graph()->mutable_node();
    auto* branch = nodes->Mutable(nodes->size() - 1)->add_attribute();
    branch->set_name("branch");
    branch->set_type(onnx::AttributeProto::GRAPH);
    fill(branch->mutable_g(), "Relu", "x");
  }
  EXPECT_EQ(run(m, {{1, 2}, {10, 20}}), (rows{{-9, -18}, {-20, -40}}));
}

// Without a bound the graph would hold itself.
TEST_F(onnx_functions, a_default_that_refers_to_itself) {
  onnx_maker m;
  auto* f = function(m, "f", {"a"}, {"r"});
  refer(node(f, "If", {"a"}, "r"), "then_branch", onnx::AttributeProto::GRAPH, "branch");
  auto* otherwise = f->add_attribute_proto();
  otherwise->set_name("branch");
  otherwise->set_type(onnx::AttributeProto::GRAPH);
  auto* inner = otherwise->mutable_g()->add_node();
  inner->set_op_type("If");
  inner->add_output("b");
  refer(inner, "then_branch", onnx::AttributeProto::GRAPH, "branch");
  m.input("x", {2});
  call(m, "f", {"x"}, {"y"}).output("y");
  EXPECT_NE(complaint(m).find("graphs of its function refer to each other without an end"), std::string::npos)
      << complaint(m);
}

}  // namespace
}  // namespace berth::model
