// Element types of results, as attributes set them, and what follows for the sizes of a plan. Sizes are counted by
// hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "berth/model/onnx.hpp"
#include "model/complaint.hpp"
#include "model/onnx_maker.hpp"

namespace berth::model {
namespace {

using test::onnx_maker;
using T = onnx::TensorProto;

// ONNX's numbers of types that its header of 2022 has not.
constexpr int f8e4m3fn = 17, u4 = 21, i4 = 22, f4 = 23, f8e8m0 = 24, u2 = 25, i2 = 26;

bytes size_of(const shapes_graph& g, const std::string& name) {
  const auto at = std::find(g.names.begin(), g.names.end(), name);
  if (at == g.names.end()) return 0;
  return g.graph.values()[static_cast<std::size_t>(at - g.names.begin())].size;
}

shapes_graph planned(const onnx_maker& m, const dimensions& said = {}) {
  return read_onnx_shapes("m.onnx", m.text(), said);
}
std::string complaint(const onnx_maker& m, const dimensions& said = {}) {
  return test::complaint_of("m.onnx", [&] { (void)planned(m, said); });
}

void input(onnx_maker& m, const std::string& name, const std::vector<std::int64_t>& shape, int type) {
  m.input(name, shape);
  auto* inputs = m.model().mutable_graph()->mutable_input();
  inputs->Mutable(inputs->size() - 1)->mutable_type()->mutable_tensor_type()->set_elem_type(type);
}

// An initializer without data: its type and shape are all that is read.
void weights(onnx_maker& m, const std::string& name, const std::vector<std::int64_t>& shape, int type) {
  auto* t = m.model().mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(type);
  for (const std::int64_t d : shape) t->add_dims(d);
}

// Bytes of eleven elements: two of four bits share a byte, and so do four of two bits.
const std::map<int, bytes> of_eleven{
    {T::FLOAT, 44},     {T::UINT8, 11},    {T::INT8, 11},    {T::UINT16, 22}, {T::INT16, 22},  {T::INT32, 44},
    {T::INT64, 88},     {T::BOOL, 11},     {T::FLOAT16, 22}, {T::DOUBLE, 88}, {T::UINT32, 44}, {T::UINT64, 88},
    {T::COMPLEX64, 88}, {T::BFLOAT16, 22}, {f8e4m3fn, 11},   {u4, 6},         {i4, 6},         {f4, 6},
    {f8e8m0, 11},       {u2, 3},           {i2, 3}};

TEST(onnx_types, cast_to_every_type) {
  for (const auto& [type, size] : of_eleven) {
    onnx_maker m{25};
    m.input("x", {11}).node("Cast", {"x"}, {"y"}).with("to", std::int64_t{type}).output("y");
    EXPECT_EQ(size_of(planned(m), "y"), size) << type;
    onnx_maker like{25};
    input(like, "t", {1}, type);
    like.input("x", {11}).node("CastLike", {"x", "t"}, {"y"}).output("y");
    EXPECT_EQ(size_of(planned(like), "y"), size) << type;
  }
}

TEST(onnx_types, what_passes_elements_on_keeps_their_type) {
  for (const auto& [type, size] : of_eleven) {
    onnx_maker m{25};
    input(m, "x", {11}, type);
    m.list("at", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}).node("Gather", {"x", "at"}, {"y"}).output("y");
    m.node("Transpose", {"x"}, {"t"}).output("t").node("Concat", {"x"}, {"c"}).with("axis", 0).output("c");
    m.node("Shape", {"x"}, {"s"}).node("Identity", {"s"}, {"s2"}).output("s2");
    const shapes_graph g = planned(m);
    for (const char* name : {"y", "t", "c"}) EXPECT_EQ(size_of(g, name), size) << type << name;
  }
}

TEST(onnx_types, the_type_of_an_attribute) {
  struct row {
    const char* op;
    const char* attribute;
    int opset;
    std::vector<int> types;
    int otherwise;  // without the attribute, where the input is f32
  };
  const std::vector<row> rows{
      {"Bernoulli", "dtype", 15, {T::DOUBLE, T::INT64, T::UINT8, T::BOOL, T::FLOAT16}, T::FLOAT},
      {"RandomNormalLike", "dtype", 15, {T::DOUBLE, T::FLOAT16}, T::FLOAT},
      {"RandomUniformLike", "dtype", 15, {T::DOUBLE, T::BFLOAT16}, T::FLOAT},
  };
  for (const row& r : rows) {
    for (const int type : r.types) {
      onnx_maker m{r.opset};
      m.input("x", {11}).node(r.op, {"x"}, {"y"}).with(r.attribute, std::int64_t{type}).output("y");
      EXPECT_EQ(size_of(planned(m), "y"), of_eleven.at(type)) << r.op << type;
    }
    onnx_maker m{r.opset};
    m.input("x", {11}).node(r.op, {"x"}, {"y"}).output("y");
    EXPECT_EQ(size_of(planned(m), "y"), of_eleven.at(r.otherwise)) << r.op;
  }
  for (const auto& [type, size] : std::map<int, bytes>{{T::DOUBLE, 128}, {T::INT64, 128}, {T::BOOL, 16}, {0, 64}}) {
    onnx_maker m{16};
    // It is known before the run, so that it is a constant: an operator that reads it at run time has its type.
    m.input("x", {4, 4}).node("EyeLike", {"x"}, {"e"});
    input(m, "c", {4, 4}, T::BOOL);
    m.node("Where", {"c", "e", "e"}, {"y"}).output("y");
    if (type != 0) {
      auto* nodes = m.model().mutable_graph()->mutable_node();
      auto* a = nodes->Mutable(0)->add_attribute();
      a->set_name("dtype");
      a->set_type(onnx::AttributeProto::INT);
      a->set_i(type);
    }
    EXPECT_EQ(size_of(planned(m), "y"), size) << type;
  }
}

TEST(onnx_types, random_values_of_a_shape) {
  for (const char* op : {"RandomNormal", "RandomUniform"}) {
    for (const auto& [type, size] : std::map<int, bytes>{{0, 24}, {T::DOUBLE, 48}, {T::FLOAT16, 12}}) {
      onnx_maker m{22};
      m.input("x", {1}).node(op, {}, {"y"}).with("shape", std::vector<std::int64_t>{2, 3}).output("y");
      if (type != 0) m.with("dtype", std::int64_t{type});
      EXPECT_EQ(size_of(planned(m), "y"), size) << op << type;
    }
  }
  for (const auto& [type, size] : std::map<int, bytes>{{0, 40}, {T::INT64, 80}}) {
    onnx_maker m{22};
    m.input("x", {2, 7}).node("Multinomial", {"x"}, {"y"}).with("sample_size", 5).output("y");
    if (type != 0) m.with("dtype", std::int64_t{type});
    EXPECT_EQ(size_of(planned(m), "y"), size) << type;
  }
}

TEST(onnx_types, quantized_as_the_attribute_or_the_zero_point_says) {
  const std::map<int, bytes> sizes{{T::INT16, 1536}, {T::UINT16, 1536}, {T::UINT8, 768}, {T::INT8, 768},
                                   {u4, 384},        {i4, 384},         {u2, 192},       {f8e4m3fn, 768}};
  for (const auto& [type, size] : sizes) {
    onnx_maker said{25};
    said.input("x", {768}).floats("s", {}, {0.5f}).node("QuantizeLinear", {"x", "s"}, {"y"}).output("y");
    said.with("output_dtype", std::int64_t{type});
    EXPECT_EQ(size_of(planned(said), "y"), size) << type;
    onnx_maker zero{25};
    zero.input("x", {768}).floats("s", {}, {0.5f});
    weights(zero, "z", {}, type);
    zero.node("QuantizeLinear", {"x", "s", "z"}, {"y"}).output("y");
    EXPECT_EQ(size_of(planned(zero), "y"), size) << type;
  }
  onnx_maker neither{25};
  neither.input("x", {768}).floats("s", {}, {0.5f}).node("QuantizeLinear", {"x", "s"}, {"y"}).output("y");
  EXPECT_EQ(size_of(planned(neither), "y"), 768u);
}

TEST(onnx_types, dequantized_as_the_attribute_or_the_scale_says) {
  for (const int from : {int{T::INT8}, u4, i2, f8e4m3fn}) {
    for (const auto& [type, size] : std::map<int, bytes>{{0, 3072}, {T::FLOAT16, 1536}, {T::BFLOAT16, 1536}}) {
      onnx_maker m{25};
      input(m, "x", {768}, from);
      m.floats("s", {}, {0.5f}).node("DequantizeLinear", {"x", "s"}, {"y"}).output("y");
      if (type != 0) m.with("output_dtype", std::int64_t{type});
      EXPECT_EQ(size_of(planned(m), "y"), size) << from << " " << type;
    }
    onnx_maker halves{25};
    input(halves, "x", {768}, from);
    weights(halves, "s", {}, T::FLOAT16);
    halves.node("DequantizeLinear", {"x", "s"}, {"y"}).output("y");
    EXPECT_EQ(size_of(planned(halves), "y"), 1536u) << from;
  }
}

// Weights of four bits with a scale per block of 32, as language models have them.
TEST(onnx_types, dequantized_by_blocks) {
  onnx_maker m{25};
  weights(m, "w", {64, 128}, u4);
  input(m, "x", {2, 64}, T::FLOAT16);
  weights(m, "s", {2, 128}, T::FLOAT16);
  m.node("DequantizeLinear", {"w", "s"}, {"d"}).with("axis", 0).with("block_size", 32);
  m.node("MatMul", {"x", "d"}, {"y"}).output("y");
  const shapes_graph g = planned(m);
  EXPECT_EQ(size_of(g, "d"), 16384u);
  EXPECT_EQ(size_of(g, "y"), 512u);
}

TEST(onnx_types, windows_and_filters) {
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    for (const auto& [type, size] : std::map<int, bytes>{{0, 64}, {T::DOUBLE, 128}, {T::FLOAT16, 32}}) {
      onnx_maker m{22};
      m.input("x", {16}).integers("n", {}, {16}).node(op, {"n"}, {"w"}).output("w");
      if (type != 0) m.with("output_datatype", std::int64_t{type});
      // It is computed of a constant, so that it is one: an operator that reads it at run time has its type.
      input(m, "c", {16}, T::BOOL);
      m.node("Where", {"c", "w", "w"}, {"y"}).output("y");
      EXPECT_EQ(size_of(planned(m), "y"), size) << op << type;
    }
  }
}

TEST(onnx_types, a_constant_of_a_shape) {
  for (const auto& [type, size] : of_eleven) {
    onnx_maker m{25};
    m.input("x", {1}).list("s", {11}).node("ConstantOfShape", {"s"}, {"c"});
    auto* nodes = m.model().mutable_graph()->mutable_node();
    auto* a = nodes->Mutable(0)->add_attribute();
    a->set_name("value");
    a->set_type(onnx::AttributeProto::TENSOR);
    a->mutable_t()->set_data_type(type);
    a->mutable_t()->add_dims(1);
    a->mutable_t()->set_raw_data(std::string(16, '\0'));
    input(m, "b", {11}, T::BOOL);
    m.node("Where", {"b", "c", "c"}, {"y"}).output("y");
    EXPECT_EQ(size_of(planned(m), "y"), size) << type;
  }
}

TEST(onnx_types, operators_of_language_models) {
  onnx_maker m{24};
  for (const char* name : {"q", "k", "v"}) input(m, name, {1, 8, 16, 64}, T::FLOAT16);
  for (const char* name : {"pk", "pv"}) input(m, name, {1, 8, 48, 64}, T::FLOAT16);
  m.node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "nk", "nv", "qk"});
  for (const char* name : {"y", "nk", "nv", "qk"}) m.output(name);
  const shapes_graph g = planned(m);
  EXPECT_EQ(size_of(g, "y"), 8u * 16 * 64 * 2);
  EXPECT_EQ(size_of(g, "nk"), 8u * 64 * 64 * 2);
  EXPECT_EQ(size_of(g, "nv"), 8u * 64 * 64 * 2);
  EXPECT_EQ(size_of(g, "qk"), 8u * 16 * 64 * 2);
  onnx_maker flat{24};  // heads side by side: 6 of 32, 2 of 32
  input(flat, "q", {2, 10, 192}, T::FLOAT);
  for (const char* name : {"k", "v"}) input(flat, name, {2, 12, 64}, T::FLOAT);
  flat.node("Attention", {"q", "k", "v"}, {"y"}).with("q_num_heads", 6).with("kv_num_heads", 2).output("y");
  EXPECT_EQ(size_of(planned(flat), "y"), 2u * 10 * 192 * 4);
  onnx_maker norm{23};
  input(norm, "x", {4, 64}, T::BFLOAT16);
  weights(norm, "s", {64}, T::BFLOAT16);
  norm.node("RMSNormalization", {"x", "s"}, {"y"}).output("y");
  EXPECT_EQ(size_of(planned(norm), "y"), 512u);
}

TEST(onnx_types, images_and_columns) {
  onnx_maker m{20};
  m.input("c", {1, 12, 4}).list("size", {3, 3}).list("block", {2, 2});
  m.node("Col2Im", {"c", "size", "block"}, {"y"}).output("y");
  m.input("t", {2, 2, 3}).list("to", {2, 3, 5, 7}).node("AffineGrid", {"t", "to"}, {"grid"}).output("grid");
  m.input("x", {20, 10, 3}).list("crop", {10, 10, 3}).node("CenterCropPad", {"x", "crop"}, {"cut"}).output("cut");
  m.input("w", {4, 3, 3, 3}).input("i", {1, 3, 9, 9}).input("o", {1, 18, 7, 7});
  m.node("DeformConv", {"i", "w", "o"}, {"d"}).output("d");
  const shapes_graph g = planned(m);
  EXPECT_EQ(size_of(g, "y"), 3u * 3 * 3 * 4);
  EXPECT_EQ(size_of(g, "grid"), 2u * 5 * 7 * 2 * 4);
  EXPECT_EQ(size_of(g, "cut"), 10u * 10 * 3 * 4);
  EXPECT_EQ(size_of(g, "d"), 4u * 7 * 7 * 4);
}

TEST(onnx_types, contradictions_state_both) {
  const auto said = [](int type, const std::vector<std::string>& shape) {
    onnx_maker m{21};
    m.input("x", {2, 5}).node("Relu", {"x"}, {"y"}).declared("y", type, shape).output("y");
    return complaint(m);
  };
  EXPECT_EQ(said(T::FLOAT, {"2", "5"}), "");
  EXPECT_EQ(said(T::FLOAT, {"n", "5"}), "");
  const std::string y = "node 'y' (Relu): its result 'y' is declared ";
  EXPECT_EQ(said(T::DOUBLE, {"2", "5"}), y + "f64 2x5 in the file, but is f32 2x5");
  EXPECT_EQ(said(T::FLOAT, {"2", "99"}), y + "f32 2x99 in the file, but is f32 2x5");
  EXPECT_EQ(said(T::FLOAT, {"n", "7"}), y + "f32 ?x7 in the file, but is f32 2x5");
  EXPECT_EQ(said(T::FLOAT, {"10"}), y + "f32 10 in the file, but is f32 2x5");
  EXPECT_EQ(said(T::FLOAT, {}), y + "f32 scalar in the file, but is f32 2x5");
  onnx_maker constant{21};
  constant.input("x", {2}).list("c", {1, 2}).node("Neg", {"c"}, {"n"}).declared("n", T::INT64, {"3"});
  constant.node("Neg", {"n"}, {"y"}).output("y");
  EXPECT_EQ(complaint(constant), "node 'n' (Neg): its result 'n' is declared i64 3 in the file, but is i64 2");
  onnx_maker late{21};  // how many there are is known at run time, but not of which type
  late.input("x", {4}).node("NonZero", {"x"}, {"i"}).declared("i", T::FLOAT, {"1", "4"}).output("i");
  const shapes_graph noted = planned(late);
  EXPECT_EQ(size_of(noted, "i"), 16u);
  EXPECT_FALSE(noted.counts_all);
  EXPECT_EQ(noted.notes, (std::vector<std::string>{"node 'i' (NonZero): its result 'i' is planned as f32, as the file "
                                                   "declares it, and should be i64"}));
  onnx_maker both{21};
  both.input("x", {4}).floats("s", {}, {1});
  weights(both, "z", {}, T::UINT8);
  both.node("QuantizeLinear", {"x", "s", "z"}, {"y"}).with("output_dtype", std::int64_t{T::INT16}).output("y");
  both.declared("y", T::INT16, {"4"});
  EXPECT_EQ(complaint(both), "node 'y' (QuantizeLinear): output_dtype is i16, but the zero point is u8");
}

TEST(onnx_types, a_size_that_is_said_agrees_with_what_is_inferred) {
  onnx_maker m{21};
  m.input("x", {2, 5}).node("Relu", {"x"}, {"y"}).declared("y", T::FLOAT, {"n", "5"}).output("y");
  EXPECT_EQ(complaint(m, {{"y.0", 2}, {"n", 2}}), "");
  EXPECT_EQ(complaint(m, {{"y.0", 3}}), "node 'y' (Relu): dimension 0 of its result 'y' is said to be 3, but is 2");
  EXPECT_EQ(complaint(m, {{"y.2", 3}}), "nothing has a dimension called 'y.2'");
}

TEST(onnx_types, types_that_are_not_declared_are_known_all_the_same) {
  onnx_maker m{21};
  m.input("x", {4}).node("NonZero", {"x"}, {"i"}).output("i");
  const shapes_graph g = planned(m, {{"i.0", 1}, {"i.1", 4}});
  EXPECT_EQ(size_of(g, "i"), 32u);
  EXPECT_TRUE(g.counts_all);
}

}  // namespace
}  // namespace berth::model
