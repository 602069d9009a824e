// Sequences and optionals: lists of values that are known before a model runs, or one line that says what is not.
#include "model/onnx_models.hpp"

namespace berth::model {
namespace {

using test::give;
using test::of_type;
using test::onnx_maker;
using rows = std::vector<std::vector<float>>;
using T = onnx::TensorProto;

class onnx_lists : public test::onnx_models {};

onnx::TypeProto* sequence_input(onnx_maker& m, const std::string& name) {
  auto* v = m.model().mutable_graph()->add_input();
  v->set_name(name);
  auto* type = v->mutable_type()->mutable_sequence_type()->mutable_elem_type();
  type->mutable_tensor_type()->set_elem_type(T::FLOAT);
  return type;
}
void sequence_output(onnx_maker& m, const std::string& name) {
  auto* v = m.model().mutable_graph()->add_output();
  v->set_name(name);
  v->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(T::FLOAT);
}

// x of six elements, cut in pieces of four and two.
onnx_maker pieces() {
  onnx_maker m;
  m.input("x", {6}).integers("four", {}, {4}).node("SplitToSequence", {"x", "four"}, {"s"});
  return m;
}
const rows six{{1, 2, 3, 4, 5, 6}};

TEST_F(onnx_lists, a_sequence_is_the_values_in_it) {
  onnx_maker m = pieces();
  m.integers("last", {}, {-1}).integers("first", {}, {-2}).integers("one", {}, {1}).input("y", {1});
  m.node("SequenceInsert", {"s", "y", "one"}, {"three"}).node("SequenceErase", {"three", "first"}, {"two"});
  m.node("SequenceAt", {"two", "last"}, {"z"}).output("z");
  m.node("ConcatFromSequence", {"three"}, {"all"}).with("axis", std::int64_t{0}).output("all");
  m.node("SequenceErase", {"three"}, {"shorter"}).node("SequenceLength", {"shorter"}, {"n"});
  m.node("Cast", {"n"}, {"length"}).with("to", std::int64_t{T::FLOAT}).output("length");
  EXPECT_EQ(run(m, {six[0], {9}}), (rows{{5, 6}, {1, 2, 3, 4, 9, 5, 6}, {2}}));
}

TEST_F(onnx_lists, split_in_every_way) {
  const auto split = [&](const std::vector<std::int64_t>& sizes, std::int64_t keeps) {
    onnx_maker m;
    m.input("x", {3, 2}).list("sizes", sizes).integers("at", {}, {1});
    m.node("SplitToSequence", sizes.empty() ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "sizes"},
           {"s"});
    m.with("axis", std::int64_t{-2}).with("keepdims", keeps);
    m.node("SequenceAt", {"s", "at"}, {"z"}).output("z");
    return m;
  };
  EXPECT_EQ(run(split({}, 0), six), (rows{{3, 4}}));
  EXPECT_EQ(run(split({1, 2}, 0), six), (rows{{3, 4, 5, 6}}));
  write_file(path_, split({}, 0).text());
  EXPECT_EQ(lower(read_onnx(path_)).outputs[0].shape, (shape{2}));
  write_file(path_, split({}, 1).text());
  EXPECT_EQ(lower(read_onnx(path_)).outputs[0].shape, (shape{1, 2}));
  EXPECT_EQ(complaint(split({1, 1}, 0)), "node 's' (Split): the parts do not add up to the axis");
  EXPECT_EQ(complaint(split({4, -1}, 0)), "node 's' (Split): a part is larger than the axis");
}

TEST_F(onnx_lists, stacked_along_a_new_dimension) {
  onnx_maker m;
  m.input("x", {2}).input("y", {2}).node("SequenceConstruct", {"x", "y", "x"}, {"s"});
  m.node("ConcatFromSequence", {"s"}, {"z"}).with("axis", std::int64_t{-1}).with("new_axis", std::int64_t{1});
  m.output("z");
  EXPECT_EQ(run(m, {{1, 2}, {3, 4}}), (rows{{1, 3, 1, 2, 4, 2}}));
}

// Inputs and outputs of the model: a tensor each, called after the sequence.
TEST_F(onnx_lists, sequences_go_in_and_out) {
  onnx_maker m, body;
  sequence_input(m, "s");
  m.input("x", {1});
  body.input("a", {2}).input("b", {1}).node("Add", {"a", "b"}, {"c"}).output("c");
  m.node("SequenceMap", {"s", "x"}, {"z"});
  give(m, "body", body);
  m.model().mutable_opset_import(0)->set_version(17);
  sequence_output(m, "z");
  EXPECT_EQ(complaint(m), "input 's': its length is unknown; say it with --dim s.length=N");
  EXPECT_EQ(test::complaint_of(path_, [&] { (void)read_onnx_shapes(path_); }),
            "input 's' is not a tensor: a sequence or an optional is planned only in a model that runs here; say --dim "
            "s.length=N or --dim s.present=0");
  EXPECT_EQ(complaint(m, {{"s.length", 2}}),
            "input 's[0]': its shape, input 's[1]': its shape are unknown; say them "
            "with --dim s[0].0=N --dim s[1].0=N");
  const dimensions two{{"s.length", 2}, {"s[0].0", 2}, {"s[1].0", 3}};
  EXPECT_EQ(run(m, {{1, 2}, {3, 4, 5}, {10}}, two), (rows{{11, 12}, {13, 14, 15}}));
  write_file(path_, m.text());
  const program p = lower(read_onnx(path_, two));
  EXPECT_EQ(p.inputs[1].name, "s[1]");
  EXPECT_EQ(p.outputs[1].name, "z[1]");
  EXPECT_TRUE(lower(read_onnx(path_, {{"s.length", 0}})).outputs.empty());
  for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{1} << 40}) {
    EXPECT_EQ(complaint(m, {{"s.length", n}}),
              "input 's': a length of " + std::to_string(n) + " is not from 0 to 16384");
  }
  onnx_maker same = m;
  same.input("s[1]", {1});
  EXPECT_EQ(complaint(same, two), "two inputs are called 's[1]'");
}

TEST_F(onnx_lists, optionals_are_what_they_hold) {
  onnx_maker m, yes, no;
  auto* v = m.model().mutable_graph()->add_input();
  v->set_name("o");
  auto* type = v->mutable_type()->mutable_optional_type()->mutable_elem_type()->mutable_tensor_type();
  type->set_elem_type(T::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_value(2);
  m.input("x", {2}).node("OptionalHasElement", {"o"}, {"has"}).node("If", {"has"}, {"z"}).output("z");
  yes.node("OptionalGetElement", {"o"}, {"y"}).output("y");
  no.node("Identity", {"x"}, {"n"}).output("n");
  give(m, "then_branch", yes);
  give(m, "else_branch", no);
  m.model().mutable_opset_import(0)->set_version(17);
  EXPECT_EQ(run(m, {{1, 2}, {3, 4}}), (rows{{1, 2}}));
  EXPECT_EQ(run(m, {{3, 4}}, {{"o.present", 0}}), (rows{{3, 4}}));
  onnx_maker asks = m;
  asks.node("OptionalGetElement", {"o"}, {"got"}).output("got");
  EXPECT_EQ(complaint(asks, {{"o.present", 0}}), "node 'got' (OptionalGetElement): the optional 'o' holds nothing");
}

// A branch that only the run knows gives one of two sequences of one length.
TEST_F(onnx_lists, a_branch_chooses_element_by_element) {
  const auto choice = [&](bool longer) {
    onnx_maker m, yes, no;
    m.input("x", {2}).input("c", {}).node("If", {"c"}, {"s"});
    of_type(m.model().mutable_graph()->mutable_input(1), T::BOOL);
    yes.node("SequenceConstruct", {"x", "x"}, {"a"});
    sequence_output(yes, "a");
    no.node("Neg", {"x"}, {"minus"});
    no.node("SequenceConstruct",
            longer ? std::vector<std::string>{"x", "minus", "x"} : std::vector<std::string>{"x", "minus"}, {"b"});
    sequence_output(no, "b");
    give(m, "then_branch", yes);
    give(m, "else_branch", no);
    m.integers("last", {}, {-1}).node("SequenceAt", {"s", "last"}, {"z"}).output("z");
    return m;
  };
  onnx_maker m = choice(false);
  write_file(path_, m.text());
  pool memory{device::host()};
  stream s{device::host()};
  auto made = runner::create(lower(read_onnx(path_)), memory, s).value();
  for (const bool c : {true, false}) {
    made.input(0)[0] = 3;
    *static_cast<bool*>(made.input_bytes(1)) = c;
    made.run().value();
    s.synchronize().value();
    EXPECT_EQ(made.output(0)[0], c ? 3 : -3);
  }
  EXPECT_EQ(complaint(choice(true)),
            "node 's' (If): its condition is known at run time only, and its branches give sequences or optionals that "
            "differ, for 's'");
}

// Rounds that add to a sequence, as exporters write lists that grow.
onnx_maker growing(std::int64_t rounds, const std::string& element) {
  onnx_maker m, body;
  body.input("i", {}).input("go", {});
  of_type(body.model().mutable_graph()->mutable_input(0), T::INT64);
  of_type(body.model().mutable_graph()->mutable_input(1), T::BOOL);
  sequence_input(body, "s");
  body.node("Cast", {"i"}, {"f"}).with("to", std::int64_t{T::FLOAT}).node("Mul", {"x", "f"}, {"y"});
  body.node("SequenceInsert", {"s", element}, {"more"}).node("Identity", {"go"}, {"on"}).output("on");
  of_type(body.model().mutable_graph()->mutable_output(0), T::BOOL);
  sequence_output(body, "more");
  m.input("x", {2}).integers("n", {}, {rounds}).node("SequenceEmpty", {}, {"none"});
  m.node("Loop", {"n", "", "none"}, {"all"});
  give(m, "body", body);
  m.node("ConcatFromSequence", {"all"}, {"z"}).with("axis", std::int64_t{0}).output("z");
  return m;
}
TEST_F(onnx_lists, a_loop_adds_to_a_sequence) {
  EXPECT_EQ(run(growing(3, "y"), {{1, 2}}), (rows{{0, 0, 1, 2, 2, 4}}));
  EXPECT_EQ(complaint(growing(3, "i")),
            "node '@3/more' (SequenceInsert): '@1/round' is i64, and the sequence is of f32");
  EXPECT_NE(complaint(growing(3, "s")).find("'none' is a sequence or an optional, not a tensor"), std::string::npos);
  EXPECT_EQ(complaint(growing(0, "y")),
            "node 'z' (ConcatFromSequence): the sequence is empty, so that nothing says "
            "which shape the result has");
  EXPECT_NE(complaint(growing(100'000, "y")), "");
}

TEST_F(onnx_lists, what_is_no_sequence_or_out_of_range) {
  const auto at = [&](const std::string& s, std::int64_t i) {
    onnx_maker m = pieces();
    m.integers("i", {}, {i}).node("SequenceAt", {s, "i"}, {"z"}).output("z");
    return complaint(m);
  };
  for (const std::int64_t i : {std::int64_t{2}, std::int64_t{-3}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(at("s", i),
              "node 'z' (SequenceAt): position " + std::to_string(i) + " is out of range for a sequence of 2");
  }
  EXPECT_EQ(at("x", 0), "node 'z' (SequenceAt): input 0 is no sequence");
  onnx_maker late = pieces();
  late.input("i", {});
  of_type(late.model().mutable_graph()->mutable_input(1), T::INT64);
  late.node("SequenceAt", {"s", "i"}, {"z"}).output("z");
  EXPECT_EQ(complaint(late),
            "node 'z' (SequenceAt): its position 'i' is not one whole number that is known before it runs");
  onnx_maker mixed;
  mixed.input("x", {2}).list("i", {1}).node("SequenceConstruct", {"x", "i"}, {"s"});
  mixed.node("SequenceLength", {"s"}, {"n"}).output("n");
  EXPECT_EQ(complaint(mixed), "node 's' (SequenceConstruct): 'i' is i64, and the sequence is of f32");
  onnx_maker nested = pieces();
  nested.node("SequenceConstruct", {"s"}, {"t"}).node("SequenceLength", {"t"}, {"n"}).output("n");
  EXPECT_EQ(complaint(nested), "node 't' (SequenceConstruct): 's' is a sequence or an optional, not a tensor");
  onnx_maker added = pieces();
  added.node("Neg", {"s"}, {"z"}).output("z");
  EXPECT_EQ(complaint(added), "node 'z' (Neg): 's' is a sequence or an optional, not a tensor");
  onnx_maker erased;
  erased.input("x", {1}).node("SequenceEmpty", {}, {"s"}).node("SequenceErase", {"s"}, {"t"});
  erased.node("SequenceLength", {"t"}, {"n"}).output("n");
  EXPECT_EQ(complaint(erased), "node 't' (SequenceErase): the sequence is empty");
}

TEST_F(onnx_lists, pieces_have_a_bound) {
  const auto split = [&](std::int64_t extent, std::int64_t each) {
    onnx_maker m;
    m.input("x", {extent}).integers("each", {}, {each}).node("SplitToSequence", {"x", "each"}, {"s"});
    m.integers("at", {}, {0}).node("SequenceAt", {"s", "at"}, {"z"}).output("z");
    return complaint(m);
  };
  EXPECT_EQ(split(1 << 24, 1),
            "node 's' (SplitToSequence): sub-graphs and sequences come to more than 16384 nodes, inputs and outputs");
  EXPECT_EQ(split(1 << 24, 1 << 20), "");
  EXPECT_EQ(split(1 << 24, INT64_MAX), "");
  EXPECT_EQ(split(6, 0), "node 's' (SplitToSequence): pieces of 0 are none");
}

// Elements of an output are called after it, so that a long name is many.
TEST_F(onnx_lists, names_of_elements_have_a_bound) {
  const auto called = [&](std::size_t length) {
    const std::string name(length, 's');
    onnx_maker m;
    m.input("x", {8000}).node("SplitToSequence", {"x"}, {name});
    sequence_output(m, name);
    return complaint(m);
  };
  EXPECT_EQ(called(100), "");
  const std::string long_one = called(1 << 20);
  EXPECT_TRUE(long_one.ends_with("all together exceed 256 MiB and four times the file's (halves as f32)"))
      << long_one.substr(long_one.size() - 100);
}

// An empty tensor is known before the run, and takes no part in it.
TEST_F(onnx_lists, empty_tensors) {
  onnx_maker m;
  m.input("x", {2}).input("none", {0}).list("sizes", {0, 2}).node("Split", {"x", "sizes"}, {"a", "b"});
  m.node("Concat", {"none", "x", "a"}, {"z"}).with("axis", std::int64_t{0}).node("Neg", {"a"}, {"y"});
  m.node("Neg", {"b"}, {"c"}).output("z").output("y").output("c");
  EXPECT_EQ(run(m, {{1, 2}, {}}), (rows{{1, 2}, {}, {-1, -2}}));
  onnx_maker product;
  product.input("x", {2, 0}).input("y", {0, 2}).node("MatMul", {"x", "y"}, {"z"}).output("z");
  EXPECT_EQ(run(product, {{}, {}}), (rows{{0, 0, 0, 0}}));
}

}  // namespace
}  // namespace berth::model
