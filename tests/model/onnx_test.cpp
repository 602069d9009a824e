// The ONNX reader: what it reads, and one line for each way a file can be wrong.
#include "berth/model/onnx.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "berth/model/builtin.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/program.hpp"
#include "model/onnx_messages.hpp"
#include "model/reference.hpp"
#include "model/running.hpp"

namespace {

using namespace berth;

class onnx_file : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("berth_onnx_" + std::to_string(::getpid()) + ".onnx");
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(13);
    model_.mutable_graph()->set_name("g");
    input("x", {1, 2, 4, 4});
    floats("w", {3, 2, 1, 1}, 6);
    node("Conv", {"x", "w"}, "y");
    node("Relu", {"y"}, "z");
    model_.mutable_graph()->add_output()->set_name("z");
    auto* type = model_.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (int d = 0; d < 4; ++d) type->mutable_shape()->add_dim();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void input(const std::string& name, const std::vector<std::int64_t>& shape) {
    auto* v = model_.mutable_graph()->add_input();
    v->set_name(name);
    auto* type = v->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (const auto d : shape) type->mutable_shape()->add_dim()->set_dim_value(d);
  }
  void floats(const std::string& name, const std::vector<std::int64_t>& shape, std::size_t count) {
    auto* t = model_.mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::FLOAT);
    for (const auto d : shape) t->add_dims(d);
    for (const float v : model::pseudo_random(count, 7)) t->add_float_data(v);
  }
  onnx::NodeProto* node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    auto* n = model_.mutable_graph()->add_node();
    n->set_op_type(op);
    n->set_name(output + "_node");
    for (const auto& i : inputs) n->add_input(i);
    n->add_output(output);
    return n;
  }
  onnx::TensorShapeProto* input_shape() {
    return model_.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  }
  void write(const std::string& text) { std::ofstream{path_, std::ios::binary} << text; }
  void save() { write(model_.SerializeAsString()); }
  // Returns the error of reading and lowering, without the path in front; "" without one.
  std::string complaint(const model::dimensions& bound = {}) {
    try {
      (void)model::lower(model::read_onnx(path_, bound));
      return "";
    } catch (const model::input_error& e) {
      const std::string text = e.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_TRUE(text.starts_with(path_.string() + ": ")) << text;
      return text.substr(path_.string().size() + 2);
    }
  }

  std::filesystem::path path_;
  onnx::ModelProto model_;
};

TEST_F(onnx_file, runs_as_the_reference_does) {
  save();
  const model::description d = model::read_onnx(path_);
  const auto inputs = test::inputs_of(d);
  EXPECT_LT(test::relative_error(test::run(d, inputs).outputs[0], test::reference{d}.run(inputs)[0]), 1e-5f);
}

TEST_F(onnx_file, not_onnx_or_truncated) {
  write("this is no model");
  EXPECT_EQ(complaint(),
            "not an ONNX model, or a truncated one: byte 0: a field is no field, or ends beyond its message");
  write("");
  EXPECT_EQ(complaint(), "not an ONNX model, or a truncated one: byte 0: the file is empty");
  const std::string whole = model_.SerializeAsString();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    EXPECT_NE(complaint(), "") << "cut at " << size;
  }
  std::filesystem::remove(path_);
  EXPECT_NE(complaint().find("No such file"), std::string::npos);
}

TEST_F(onnx_file, nodes_out_of_order_are_sorted) {
  model_.mutable_graph()->mutable_node()->SwapElements(0, 1);
  save();
  const model::description d = model::read_onnx(path_);
  EXPECT_EQ(d.nodes[0].op, "Conv");
  EXPECT_EQ(d.nodes[1].op, "Relu");
}

TEST_F(onnx_file, a_cycle_of_nodes_is_named) {
  model_.mutable_graph()->mutable_node(0)->set_input(0, "z");
  save();
  EXPECT_EQ(complaint(), "a cycle: node 'y_node' (Conv) waits for 'z_node' (Relu) waits for 'y_node' (Conv)");
  model_.mutable_graph()->mutable_node(0)->set_input(0, "y");
  save();
  EXPECT_EQ(complaint(), "a cycle: node 'y_node' (Conv) waits for 'y_node' (Conv)");
}

TEST_F(onnx_file, an_unknown_operator_names_itself) {
  node("Frobnicate", {"z"}, "q");
  save();
  EXPECT_EQ(complaint(), "node 'q_node' (Frobnicate): ONNX has no such operator");
}

TEST_F(onnx_file, operators_and_attributes_are_those_of_the_files_opset) {
  model_.mutable_graph()->mutable_node(1)->set_op_type("Mish");
  save();
  EXPECT_EQ(complaint(), "node 'z_node' (Mish): the operator came with opset 18, and the file is of opset 13");
  auto* a = model_.mutable_graph()->mutable_node(1)->add_attribute();
  a->set_name("axes");
  a->set_type(onnx::AttributeProto::INTS);
  a->add_ints(1);
  model_.mutable_graph()->mutable_node(1)->set_op_type("Squeeze");
  save();
  EXPECT_EQ(complaint(), "node 'z_node' (Squeeze): the operator has no attribute 'axes' in opset 13");
  model_.mutable_opset_import(0)->set_version(12);
  input_shape()->mutable_dim(0)->set_dim_value(1);
  save();
  EXPECT_EQ(complaint(), "node 'z_node' (Squeeze): axis 1 is squeezed, but is 3 long");
}

TEST_F(onnx_file, a_model_without_an_opset_is_refused) {
  model_.mutable_opset_import()->clear();
  save();
  EXPECT_EQ(complaint(), "it names no opset");
}

TEST_F(onnx_file, the_number_of_the_ir_refuses_nothing) {
  for (const int ir : {3, 8, 13, 99}) {
    model_.set_ir_version(ir);
    save();
    EXPECT_EQ(complaint(), "") << ir;
  }
}

TEST_F(onnx_file, outputs_need_no_shape_and_a_graph_no_nodes) {
  model_.mutable_graph()->mutable_output(0)->clear_type();
  save();
  EXPECT_EQ(complaint(), "");
  model_.mutable_graph()->mutable_node()->clear();
  model_.mutable_graph()->mutable_output(0)->set_name("x");
  save();
  EXPECT_EQ(complaint(), "");
}

TEST_F(onnx_file, what_is_declared_and_what_is_inferred_agree) {
  auto* type = model_.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
  type->mutable_shape()->mutable_dim(1)->set_dim_value(99);
  save();
  EXPECT_EQ(complaint(), "value 'z' is declared f32 ?x99x?x? in the file, but is f32 1x3x4x4");
  type->mutable_shape()->mutable_dim(1)->set_dim_value(3);
  type->set_elem_type(onnx::TensorProto::DOUBLE);
  save();
  EXPECT_EQ(complaint(), "value 'z' is declared f64 ?x3x?x? in the file, but is f32 1x3x4x4");
  type->set_elem_type(onnx::TensorProto::FLOAT);
  auto* inner = model_.mutable_graph()->add_value_info();
  inner->set_name("y");
  type = inner->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_value(7);
  save();
  EXPECT_EQ(complaint(), "value 'y' is declared f32 7 in the file, but is f32 1x3x4x4");
}

// As the exporters of Kaldi and PaddlePaddle write "any size".
TEST_F(onnx_file, a_size_of_minus_one_is_open) {
  input_shape()->mutable_dim(2)->set_dim_value(-1);
  save();
  EXPECT_EQ(complaint(), "input 'x': dimension 2 is unknown; say it with --dim x.2=N");
  EXPECT_EQ(complaint({{"x.2", 4}}), "");
}

TEST_F(onnx_file, an_operator_without_a_kernel_names_the_node) {
  node("RandomNormalLike", {"z"}, "q");
  model_.mutable_graph()->mutable_output(0)->set_name("q");
  save();
  EXPECT_EQ(complaint(), "node 'q_node' (RandomNormalLike): the operator has no kernel here");
}

TEST_F(onnx_file, an_open_dimension_must_be_bound_and_can_be) {
  input_shape()->mutable_dim(0)->set_dim_param("batch");
  save();
  EXPECT_EQ(complaint(), "input 'x': dimension 0 ('batch') is unknown; say it with --dim batch=N");
  EXPECT_EQ(complaint({{"batch", 2}}), "");
  EXPECT_EQ(complaint({{"batch", 2}, {"tokens", 3}}), "no input has a dimension called 'tokens'");
}

// All of them at once: a user who tries a model for the first time knows none of its names.
TEST_F(onnx_file, all_open_dimensions_are_named_in_one_line) {
  input_shape()->mutable_dim(0)->set_dim_param("batch");
  input_shape()->mutable_dim(2)->clear_dim_value();
  input_shape()->mutable_dim(3)->set_dim_param("batch");
  save();
  EXPECT_EQ(
      complaint(),
      "input 'x': dimension 0 ('batch'), input 'x': dimension 2, input 'x': dimension 3 ('batch') are unknown; say "
      "them with --dim batch=N --dim x.2=N");
  EXPECT_EQ(complaint({{"batch", 2}}), "input 'x': dimension 2 is unknown; say it with --dim x.2=N");
  EXPECT_EQ(complaint({{"x.0", 1}, {"x.9", 1}, {"x.2", 4}, {"batch", 4}}), "no input has a dimension called 'x.9'");
}

TEST_F(onnx_file, dimensions_whose_product_exceeds_64_bits) {
  input_shape()->mutable_dim(2)->set_dim_value(std::int64_t{1} << 40);
  input_shape()->mutable_dim(3)->set_dim_value(std::int64_t{1} << 40);
  save();
  EXPECT_EQ(complaint(), "input 'x': a dimension exceeds 2^30: 1099511627776");
  for (const int d : {0, 2, 3}) input_shape()->mutable_dim(d)->set_dim_value(1 << 30);
  save();
  EXPECT_EQ(complaint(), "input 'x': the product of its dimensions exceeds 2^59: 1073741824x2x1073741824x1073741824");
  input_shape()->mutable_dim(0)->set_dim_value(1);
  input_shape()->mutable_dim(2)->set_dim_value(-4);
  save();
  EXPECT_EQ(complaint(), "input 'x': a dimension is negative: -4");
}

TEST_F(onnx_file, a_dimension_of_zero) {
  input_shape()->mutable_dim(2)->set_dim_value(0);
  save();
  EXPECT_NE(complaint(), "");
}

TEST_F(onnx_file, shapes_that_do_not_fit_name_the_node) {
  input_shape()->mutable_dim(1)->set_dim_value(5);
  save();
  EXPECT_EQ(complaint(), "node 'y_node' (Conv): weights 3x2x1x1 do not fit input 1x5x4x4 in 1 groups");
}

TEST_F(onnx_file, an_initializer_with_too_little_data) {
  model_.mutable_graph()->mutable_initializer(0)->mutable_float_data()->RemoveLast();
  save();
  EXPECT_NE(complaint(), "");
}

TEST_F(onnx_file, bytes_changed_at_random_never_crash) {
  const std::string whole = model_.SerializeAsString();
  const auto noise = model::pseudo_random(3 * 4000, 99);
  for (std::size_t i = 0; i < 4000; ++i) {
    std::string text = whole;
    for (std::size_t k = 0; k < 2; ++k) {
      const auto at = static_cast<std::size_t>((noise[3 * i + k] + 1) / 2 * static_cast<float>(text.size() - 1));
      text[at] = static_cast<char>(static_cast<int>((noise[3 * i + 2] + 1) * 128) + static_cast<int>(k));
    }
    write(text);
    (void)complaint();
  }
}

}  // namespace
