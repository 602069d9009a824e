// Models of ONNX made by hand, node by node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/onnx_messages.hpp"

namespace berth::test {

class onnx_maker {
 public:
  explicit onnx_maker(std::int64_t opset = 13) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
    model_.mutable_graph()->set_name("g");
  }

  onnx_maker& input(const std::string& name, const std::vector<std::int64_t>& shape) {
    auto* v = model_.mutable_graph()->add_input();
    v->set_name(name);
    auto* type = v->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    auto* dims = type->mutable_shape();
    for (const std::int64_t d : shape) {
      auto* dim = dims->add_dim();
      if (d < 0) {
        dim->set_dim_param("n");  // open
      } else {
        dim->set_dim_value(d);
      }
    }
    return *this;
  }
  onnx_maker& floats(const std::string& name, const std::vector<std::int64_t>& shape,
                     const std::vector<float>& values) {
    auto* t = constant(name, shape, onnx::TensorProto::FLOAT);
    for (const float v : values) t->add_float_data(v);
    if (values.empty()) t->set_raw_data("");
    return *this;
  }
  onnx_maker& integers(const std::string& name, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& values) {
    auto* t = constant(name, shape, onnx::TensorProto::INT64);
    for (const std::int64_t v : values) t->add_int64_data(v);
    if (values.empty()) t->set_raw_data("");
    return *this;
  }
  onnx_maker& list(const std::string& name, const std::vector<std::int64_t>& values) {
    return integers(name, {static_cast<std::int64_t>(values.size())}, values);
  }
  onnx_maker& node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs) {
    auto* n = model_.mutable_graph()->add_node();
    n->set_op_type(op);
    for (const auto& name : inputs) n->add_input(name);
    for (const auto& name : outputs) n->add_output(name);
    return *this;
  }
  // Sets an attribute of the last node.
  onnx_maker& with(const std::string& attribute, std::int64_t value) {
    auto* a = attribute_of_last(attribute, onnx::AttributeProto::INT);
    a->set_i(value);
    return *this;
  }
  onnx_maker& with(const std::string& attribute, const std::vector<std::int64_t>& values) {
    auto* a = attribute_of_last(attribute, onnx::AttributeProto::INTS);
    for (const std::int64_t v : values) a->add_ints(v);
    return *this;
  }
  onnx_maker& with_text(const std::string& attribute, const std::string& value) {
    attribute_of_last(attribute, onnx::AttributeProto::STRING)->set_s(value);
    return *this;
  }
  // Declares an output without type and shape.
  onnx_maker& output(const std::string& name) {
    model_.mutable_graph()->add_output()->set_name(name);
    return *this;
  }
  // For what the lines above do not say.
  [[nodiscard]] onnx::ModelProto& model() { return model_; }
  // Declares an inner value; dimensions by number, or by name if they are open.
  onnx_maker& declared(const std::string& name, int type, const std::vector<std::string>& shape) {
    auto* v = model_.mutable_graph()->add_value_info();
    v->set_name(name);
    v->mutable_type()->mutable_tensor_type()->set_elem_type(type);
    auto* dims = v->mutable_type()->mutable_tensor_type()->mutable_shape();
    for (const std::string& d : shape) {
      const bool number = !d.empty() && d.find_first_not_of("0123456789") == std::string::npos;
      number ? dims->add_dim()->set_dim_value(std::stoll(d)) : dims->add_dim()->set_dim_param(d);
    }
    return *this;
  }
  [[nodiscard]] std::string text() const { return model_.SerializeAsString(); }

 private:
  onnx::TensorProto* constant(const std::string& name, const std::vector<std::int64_t>& shape,
                              onnx::TensorProto::DataType type) {
    auto* t = model_.mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(type);
    for (const std::int64_t d : shape) t->add_dims(d);
    return t;
  }
  onnx::AttributeProto* attribute_of_last(const std::string& name, onnx::AttributeProto::AttributeType type) {
    auto* nodes = model_.mutable_graph()->mutable_node();
    auto* a = nodes->Mutable(nodes->size() - 1)->add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  }

  onnx::ModelProto model_;
};

// The last node's attribute `name`: the graph that `body` was made as.
inline void give(onnx_maker& m, const std::string& name, onnx_maker& body) {
  auto* nodes = m.model().mutable_graph()->mutable_node();
  auto* a = nodes->Mutable(nodes->size() - 1)->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::GRAPH);
  *a->mutable_g() = body.model().graph();
}

inline void of_type(onnx::ValueInfoProto* v, int type) {
  v->mutable_type()->mutable_tensor_type()->set_elem_type(type);
}

}  // namespace berth::test
