// Lowering of the operators that move or rename data: views where strides can say it, one copy where not. And the
// table of all operators.
#include <algorithm>
#include <map>

#include "model/lower/lowering.hpp"
#include "model/onnx/fold.hpp"

namespace berth::model {

void lowering::transpose(const node& n) {
  const placed x = get(n, 0);
  shape order;
  for (std::size_t d = x.type.shape.size(); d-- > 0;) order.push_back(static_cast<std::int64_t>(d));
  order = attribute_or(m_, n, "perm", order);
  tensor_type type{{}, element::f32, 0, {}};
  for (const std::int64_t d : order) {
    type.shape.push_back(x.type.shape[static_cast<std::size_t>(d)]);
    type.strides.push_back(x.type.strides[static_cast<std::size_t>(d)]);
  }
  define(n.outputs[0], view(x, std::move(type)));
}

void lowering::reshape(const node& n) {
  placed x = get(n, 0);
  const shape& to = shape_of(n.outputs[0]);
  auto by = reshaped_strides(x.type, to);
  if (!by) {
    x = as_row_major(n, x);
    by = op::row_major(to);
  }
  define(n.outputs[0], view(x, {to, element::f32, 0, *std::move(by)}));
}

placed lowering::cut(const node& n, const placed& x, const slicing& s) {
  tensor_type type{s.result, element::f32, 0, x.type.strides};
  bytes offset = 0;
  for (std::size_t d = 0; d < s.result.size(); ++d) {
    offset += static_cast<bytes>(s.start[d] * x.type.strides[d]);
    type.strides[d] *= s.step[d];
  }
  const placed part = view(x, type, offset);
  if (is_dense(type)) return part;
  // Gaps inside would cost every kernel that reads it: close them, in the order that the dimensions have.
  return is_channels_last(x.type) ? as_channels_last(n, part) : as_row_major(n, part);
}

void lowering::slice(const node& n) {
  const placed x = get(n, 0);
  const slicing s = sliced(m_, n, x.type.shape, [&](std::size_t i) { return constant_input(n, i); });
  define(n.outputs[0], cut(n, x, s));
}

void lowering::split(const node& n) {
  const placed x = get(n, 0);
  const auto axis = static_cast<std::size_t>(
      axis_of(m_, n, attribute_or<std::int64_t>(m_, n, "axis", 0), static_cast<std::int64_t>(x.type.shape.size())));
  const auto sizes = split_sizes(m_, n, x.type.shape, [&](std::size_t i) { return constant_input(n, i); });
  slicing s{x.type.shape, shape(x.type.shape.size(), 0), shape(x.type.shape.size(), 1)};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    s.result[axis] = sizes[i];
    if (!n.outputs[i].empty()) define(n.outputs[i], cut(n, x, s));
    s.start[axis] += sizes[i];
  }
}

void lowering::concatenation(const node& n) {
  const std::string& result = n.outputs[0];
  const shape& output = shape_of(result);
  const auto axis =
      axis_of(m_, n, attribute_or<std::int64_t>(m_, n, "axis", 0), static_cast<std::int64_t>(output.size()));
  const bool last = std::any_of(n.inputs.begin(), n.inputs.end(), [&](const std::string& name) {
    const auto found = values_.find(name);
    return found != values_.end() && constant(name) == nullptr && is_channels_last(found->second.type) &&
           !is_row_major(found->second.type);
  });
  const auto by = [&](const shape& s) { return last ? op::channels_last(s) : op::row_major(s); };
  std::vector<value_id> inputs;
  std::vector<tensor_type> types;
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    const tensor* t = constant_input(n, i);
    const placed p = t != nullptr && t->type == element::f32
                         ? keep_constant(n, n.inputs[i] + ":laid_out", *t, by(t->shape))
                         : in_layout(n, get(n, i), by(shape_of(n.inputs[i])));
    inputs.push_back(p.id);
    types.push_back(p.type);
  }
  const tensor_type type = dense(output, by(output));
  define(result, emit(n, result, inputs, type, op::concatenation(types, type, static_cast<int>(axis))));
}

void lowering::pad(const node& n) {
  placed x = get(n, 0);
  if (!is_channels_last(x.type)) x = as_row_major(n, x);
  const auto pads = paddings(m_, n, x.type.shape, [&](std::size_t i) { return constant_input(n, i); });
  float value = attribute_or(m_, n, "value", 0.0f);
  if (has_input(n, 2)) {
    const tensor* t = constant_input(n, 2);
    if (t == nullptr || t->data.size() != sizeof(float)) fail(n, "the padding value is not a constant scalar");
    value = floats(m_, called(n), *t).front();
  }
  const shape& output = shape_of(n.outputs[0]);
  const tensor_type type = dense(output, is_channels_last(x.type) ? op::channels_last(output) : op::row_major(output));
  const shape begin(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(output.size()));
  define(n.outputs[0], emit(n, n.outputs[0], {x.id}, type, op::pad(x.type, type, begin, value)));
}

void lowering::lower(const node& n) {
  using way = void (lowering::*)(const node&);
  static const std::map<std::string, way, std::less<>> ways{
      {"Abs", &lowering::elementwise},
      {"Add", &lowering::binary},
      {"AveragePool", &lowering::pooling},
      {"BatchNormalization", &lowering::batch_normalization},
      {"Clip", &lowering::elementwise},
      {"Concat", &lowering::concatenation},
      {"Conv", &lowering::convolution},
      {"Div", &lowering::binary},
      {"Dropout", &lowering::reshape},
      {"Elu", &lowering::elementwise},
      {"Exp", &lowering::elementwise},
      {"Flatten", &lowering::reshape},
      {"Gelu", &lowering::elementwise},
      {"Gemm", &lowering::gemm},
      {"GlobalAveragePool", &lowering::pooling},
      {"HardSwish", &lowering::elementwise},
      {"Identity", &lowering::reshape},
      {"LayerNormalization", &lowering::layer_normalization},
      {"LeakyRelu", &lowering::elementwise},
      {"Log", &lowering::elementwise},
      {"MatMul", &lowering::matmul},
      {"Max", &lowering::binary},
      {"MaxPool", &lowering::pooling},
      {"Min", &lowering::binary},
      {"Mul", &lowering::binary},
      {"Neg", &lowering::elementwise},
      {"Pad", &lowering::pad},
      {"Pow", &lowering::binary},
      {"ReduceMean", &lowering::reduce_mean},
      {"Relu", &lowering::elementwise},
      {"Reshape", &lowering::reshape},
      {"Sigmoid", &lowering::elementwise},
      {"Slice", &lowering::slice},
      {"Softmax", &lowering::softmax},
      {"Split", &lowering::split},
      {"Sqrt", &lowering::elementwise},
      {"Squeeze", &lowering::reshape},
      {"Sub", &lowering::binary},
      {"Tanh", &lowering::elementwise},
      {"Transpose", &lowering::transpose},
      {"Unsqueeze", &lowering::reshape},
  };
  const auto found = ways.find(n.op);
  if (found == ways.end()) fail(n, "the operator has no kernel here");
  (this->*found->second)(n);
}

}  // namespace berth::model
