// Lowering of the operators that compute: convolutions, products, element-wise functions, normalizations, pools.
#include <algorithm>
#include <cmath>

#include "model/lower/lowering.hpp"
#include "model/onnx/fold.hpp"

namespace berth::model {

namespace {
op::binary_kind binary_kind_of(const std::string& op) {
  if (op == "Sub") return op::binary_kind::subtract;
  if (op == "Mul") return op::binary_kind::multiply;
  if (op == "Div") return op::binary_kind::divide;
  if (op == "Max") return op::binary_kind::maximum;
  if (op == "Min") return op::binary_kind::minimum;
  return op::binary_kind::add;
}

// Adds leading dimensions of 1 up to `rank`.
tensor_type widened(tensor_type t, std::size_t rank) {
  while (t.shape.size() < rank) {
    t.shape.insert(t.shape.begin(), 1);
    t.strides.insert(t.strides.begin(), t.strides.empty() ? 4 : t.strides.front());
  }
  return t;
}

// Returns the code that a kernel over this window unrolls, for allowance::unroll(). It is some sixty instructions an
// element of its last dimension, against one of a normalized row.
std::int64_t unrolled(const op::window& w) {
  return 64 * w.kernel.back();
}

// oneDNN's windows have three dimensions at most.
bool library_has_windows(const shape& s) {
  return s.size() <= 5;
}

// y = x * scale + shift, per channel: what a batch normalization is once its statistics are constants.
struct affine {
  std::vector<float> scale, shift;
};

// Makes the mean over all spatial dimensions. The pooling kernel is the faster one, but unrolls the last of them.
op::created spatial_mean(const tensor_type& input, const tensor_type& output) {
  const shape& s = input.shape;
  if (s.back() > 1024) return op::mean(input, output);
  const shape ones(s.size() - 2, 1), zeros(s.size() - 2, 0);
  const op::window all{{s.begin() + 2, s.end()}, ones, ones, zeros, zeros};
  return op::pooling(op::pool_kind::average, input, output, all);
}

affine affine_of(const description& m, const node& n, const std::vector<const tensor*>& constants) {
  const std::string what = called(n);
  const auto gamma = floats(m, what, *constants[0]), beta = floats(m, what, *constants[1]);
  const auto mean = floats(m, what, *constants[2]), variance = floats(m, what, *constants[3]);
  const float epsilon = attribute_or(m, n, "epsilon", 1e-5f);
  affine a;
  for (std::size_t c = 0; c < gamma.size(); ++c) {
    a.scale.push_back(gamma[c] / std::sqrt(variance[c] + epsilon));
    a.shift.push_back(beta[c] - mean[c] * a.scale[c]);
  }
  return a;
}
}  // namespace

bool lowering::absorb_normalization(std::string& result, std::vector<float>& weights, std::vector<float>& shift,
                                    std::size_t channels, const std::function<std::size_t(std::size_t)>& channel_of) {
  const node* norm = only_reader(result);
  if (norm == nullptr || norm->op != "BatchNormalization" || batch_statistics(*norm).empty()) return false;
  const affine a = affine_of(m_, *norm, batch_statistics(*norm));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] *= a.scale[channel_of(i)];
  shift.resize(channels, 0.0f);
  for (std::size_t c = 0; c < channels; ++c) shift[c] = shift[c] * a.scale[c] + a.shift[c];
  absorbed_.insert(norm);
  result = norm->outputs[0];
  return true;
}

bool lowering::convolution(const node& n) {
  const tensor* weights = constant_input(n, 1);
  const tensor* bias = constant_input(n, 2);
  if (weights == nullptr || (has_input(n, 2) && bias == nullptr)) return false;
  if (!library_has_windows(weights->shape)) return false;
  const placed x = as_channels_last(n, get(n, 0));
  std::string result = n.outputs[0];
  room_.take(m_, n, weights->data.size());
  tensor w = *weights;
  const auto channels = static_cast<std::size_t>(w.shape[0]);
  std::vector<float> shift = bias != nullptr ? floats(m_, called(n), *bias) : std::vector<float>{};
  if (bias != nullptr && shift.size() != channels) fail(n, "the bias has not one value per output channel");

  std::vector<float> values = floats(m_, called(n), w);
  const std::size_t each = values.size() / channels;
  if (absorb_normalization(result, values, shift, channels, [&](std::size_t i) { return i / each; })) {
    w = float_tensor(w.shape, values);
  }
  tensor_type type = dense(shape_of(result), op::channels_last(shape_of(result)));

  // A residual sum: the other operand is there already and lies as the result will.
  std::optional<placed> addend;
  if (const node* next = only_reader(result); next != nullptr && next->op == "Add") {
    const std::string& other = next->inputs[next->inputs[0] == result ? 1 : 0];
    const auto found = values_.find(other);
    if (found != values_.end() && found->second.type.shape == type.shape && constant(other) == nullptr &&
        same_layout(type.shape, found->second.type.strides, type.strides)) {
      addend = found->second;
      absorbed_.insert(next);
      result = next->outputs[0];
    }
  }

  op::convolution_description d;
  d.input = x.type;
  d.weights = dense(w.shape, op::row_major(w.shape));
  d.bias = !shift.empty();
  d.output = type;
  d.over = op::window_of(request(n), x.type.shape, {w.shape.begin() + 2, w.shape.end()});
  room_.unroll(m_, n, unrolled(d.over));
  d.groups = attribute_or<std::int64_t>(m_, n, "group", 1);
  d.accumulate = addend.has_value();
  d.then = absorb_activations(result, true);
  op::created made = op::convolution(d);
  if (!made) fail(n, made.error().what);

  std::vector<value_id> inputs{x.id, keep_packed(n, n.inputs[1], std::move(w), **made, 1)};
  if (d.bias) {
    inputs.push_back(keep_constant(n, result + ":bias", float_tensor({type.shape[1]}, shift), {4}).id);
  }
  std::vector<std::uint32_t> in_place;
  if (addend) {
    in_place.push_back(static_cast<std::uint32_t>(inputs.size()));
    inputs.push_back(addend->id);
  }
  define(result, emit(n, result, std::move(inputs), std::move(type), std::move(made), std::move(in_place)));
  return true;
}

bool lowering::transposed_convolution(const node& n) {
  const tensor* weights = constant_input(n, 1);
  const tensor* bias = constant_input(n, 2);
  if (weights == nullptr || (has_input(n, 2) && bias == nullptr)) return false;
  const op::spreading s = op::spreading_of(request(n));
  const auto groups = attribute_or<std::int64_t>(m_, n, "group", 1);
  std::string result = n.outputs[0];
  std::vector<float> shift = bias != nullptr ? floats(m_, called(n), *bias) : std::vector<float>{};
  std::vector<float> values = floats(m_, called(n), *weights);

  op::transposed_convolution_description d;
  const shape& from = shape_of(n.inputs[0]);
  d.input = dense(from, op::channels_last(from));
  d.weights = dense(weights->shape, op::row_major(weights->shape));
  d.output = dense(s.result, op::channels_last(s.result));
  d.over = s.over;
  d.groups = groups;
  room_.unroll(m_, n, unrolled(d.over));
  if (!op::transposed_convolution(d)) return false;
  room_.take(m_, n, weights->data.size());

  const auto channels = static_cast<std::size_t>(s.result[1]);
  const node* next = only_reader(result);
  if (const tensor* addend = next != nullptr ? channel_addend(*next, result) : nullptr; addend != nullptr) {
    shift.resize(channels, 0.0f);
    const std::vector<float> more = floats(m_, called(n), *addend);
    for (std::size_t c = 0; c < channels; ++c) shift[c] += more[c];
    absorbed_.insert(next);
    result = next->outputs[0];
  }
  const auto each = static_cast<std::size_t>(weights->shape[1]);  // results of a group
  const auto ins = static_cast<std::size_t>(weights->shape[0]), window = values.size() / ins / each;
  (void)absorb_normalization(result, values, shift, channels, [&](std::size_t i) {
    const std::size_t group = i / window / each / (ins / static_cast<std::size_t>(groups));
    return group * each + i / window % each;
  });
  d.bias = !shift.empty();
  d.then = absorb_activations(result, true);
  op::created made = op::transposed_convolution(d);
  if (!made) fail(n, made.error().what);
  const placed x = as_channels_last(n, get(n, 0));
  std::vector<value_id> inputs{x.id, keep_packed(n, n.inputs[1], float_tensor(weights->shape, values), **made, 1)};
  if (d.bias) inputs.push_back(keep_constant(n, result + ":bias", float_tensor({s.result[1]}, shift), {4}).id);
  define(result, emit(n, result, std::move(inputs), d.output, std::move(made)));
  return true;
}

const tensor* lowering::channel_addend(const node& add, const std::string& to) const {
  if (add.op != "Add" || add.inputs.size() != 2) return nullptr;
  const tensor* addend = constant_input(add, add.inputs[0] == to ? 1 : 0);
  const shape& s = shape_of(to);
  if (addend == nullptr || addend->type != element::f32 || shape_of(add.outputs[0]) != s) return nullptr;
  const std::size_t missing = s.size() - addend->shape.size();
  for (std::size_t d = 0; d < s.size(); ++d) {
    const std::int64_t there = d < missing ? 1 : addend->shape[d - missing];
    if (there != (d == 1 ? s[1] : 1)) return nullptr;
  }
  return addend;
}

bool lowering::matmul(const node& n) {
  if (shape_of(n.inputs[0]).size() < 2 || shape_of(n.inputs[1]).size() < 2) return false;
  const tensor* b = constant_input(n, 1);
  if (b != nullptr) room_.take(m_, n, b->data.size());
  product(n, get(n, 0), b, b != nullptr ? placed{} : get(n, 1), nullptr, n.outputs[0]);
  return true;
}

bool lowering::gemm(const node& n) {
  const tensor *b = constant_input(n, 1), *bias = constant_input(n, 2);
  const bool scaled = attribute_or(m_, n, "alpha", 1.0f) != 1.0f || attribute_or(m_, n, "beta", 1.0f) != 1.0f;
  const auto columns = static_cast<std::size_t>(shape_of(n.outputs[0]).back());
  // One value a column. In a square result, as many values could also be one a row.
  const bool by_column = bias != nullptr && bias->data.size() == columns * 4 &&
                         (columns == 1 || bias->shape.back() == static_cast<std::int64_t>(columns));
  if (scaled || b == nullptr || (has_input(n, 2) && !by_column)) return false;
  const auto turned = [&](placed p) {
    std::swap(p.type.shape[0], p.type.shape[1]);
    std::swap(p.type.strides[0], p.type.strides[1]);
    return view(p, p.type);
  };
  placed a = get(n, 0);
  if (attribute_or<std::int64_t>(m_, n, "transA", 0) != 0) a = turned(a);
  room_.take(m_, n, b->data.size());
  tensor straight = *b;
  if (attribute_or<std::int64_t>(m_, n, "transB", 0) != 0) {
    // Column-major bytes of the transposed shape are the row-major bytes of the shape given.
    straight = {b->type, {b->shape[1], b->shape[0]}, laid_out(*b, {4, 4 * b->shape[0]})};
  }
  product(n, a, &straight, {}, bias, n.outputs[0]);
  return true;
}

void lowering::product(const node& n, placed a, const tensor* b_constant, placed b, const tensor* bias,
                       std::string result) {
  const shape output = shape_of(result);
  tensor_type c = dense(output, op::row_major(output));
  op::matmul_description d;

  // A bias added right behind.
  if (const node* next = only_reader(result); bias == nullptr && next != nullptr && next->op == "Add") {
    const tensor* addend = constant(next->inputs[next->inputs[0] == result ? 1 : 0]);
    if (addend != nullptr && addend->type == element::f32 && !addend->shape.empty() &&
        addend->shape.size() <= output.size() && addend->shape.back() == output.back() &&
        addend->data.size() == static_cast<std::size_t>(output.back()) * 4) {
      bias = addend;
      absorbed_.insert(next);
      result = next->outputs[0];
    }
  }
  d.bias = bias != nullptr;
  d.then = absorb_activations(result, true);

  // Rows of a are independent: with a constant matrix on the right, all batches are one product.
  if (b_constant != nullptr && b_constant->shape.size() == 2) {
    a = as_row_major(n, a);
    const std::int64_t inner = a.type.shape.back();
    const std::int64_t rows = element_count(m_, called(n), a.type.shape) / std::max<std::int64_t>(inner, 1);
    d.a = dense({rows, inner}, op::row_major(shape{rows, inner}));
    d.b = dense(b_constant->shape, op::row_major(b_constant->shape));
    d.c = dense({rows, output.back()}, op::row_major(shape{rows, output.back()}));
    d.b_constant = true;
  } else {
    if (b_constant != nullptr) b = keep_constant(n, n.inputs[1], *b_constant, op::row_major(b_constant->shape));
    // Either of the two innermost dimensions must be dense.
    const auto readable = [&](placed p) {
      const auto& s = p.type.strides;
      return s[s.size() - 1] == 4 || s[s.size() - 2] == 4 ? p : as_row_major(n, p);
    };
    a = readable(a);
    b = readable(b);
    d.a = widened(a.type, output.size());
    d.b = widened(b.type, output.size());
    d.c = c;
  }
  op::created made = op::matmul(d);
  if (!made) fail(n, made.error().what);
  std::vector<value_id> inputs{a.id};
  inputs.push_back(d.b_constant ? keep_packed(n, n.inputs[1], *b_constant, **made, 1) : b.id);
  if (d.bias) {
    const tensor row{element::f32, {output.back()}, bias->data};
    inputs.push_back(keep_constant(n, result + ":bias", row, {4}).id);
  }
  define(result, emit(n, result, std::move(inputs), std::move(c), std::move(made)));
}

bool lowering::elementwise(const node& n) {
  std::string data;
  const auto first = as_activation(n, data);
  if (!first) return false;
  std::size_t side = 0;
  while (n.inputs[side] != data) ++side;
  placed x = get(n, side);
  if (!is_dense(x.type)) x = as_row_major(n, x);
  std::string result = n.outputs[0];
  // One function, if of several nodes: with more, oneDNN 2.6 computes them by its reference code.
  const op::activations each = absorb_activations(result, false, {*first}, 1);
  const tensor_type type = dense(x.type.shape, x.type.strides);
  define(result, emit(n, result, {x.id}, type, op::elementwise(x.type, type, each), {0}));
  return true;
}

bool lowering::binary(const node& n) {
  if (std::ranges::any_of(n.inputs, [](const std::string& name) { return name.empty(); })) return false;
  std::string data;
  if (as_activation(n, data)) return elementwise(n);
  if (n.inputs.size() != 2 || n.op == "Pow" || n.attributes.contains("alpha")) return false;
  std::string result = n.outputs[0];
  const shape output = shape_of(result);

  // oneDNN broadcasts the second operand and works in place on the first: the first must have the result's shape,
  // and is better not a constant.
  std::size_t left = 0;
  const bool commutes = n.op == "Add" || n.op == "Mul" || n.op == "Max" || n.op == "Min";
  const auto fits = [&](std::size_t i) { return shape_of(n.inputs[i]) == output; };
  const bool last_use_of_right = only_reader(n.inputs[1]) != nullptr && only_reader(n.inputs[0]) == nullptr;
  if (!fits(0) || (commutes && fits(1) && (constant_input(n, 0) != nullptr || last_use_of_right))) left = 1;
  if (!fits(left) || (left == 1 && !commutes)) return false;

  placed a = get(n, left);
  if (!is_dense(a.type)) a = as_row_major(n, a);
  const tensor* constant_b = constant_input(n, 1 - left);
  placed b;
  if (constant_b != nullptr && constant_b->shape == output && constant_b->type == element::f32) {
    b = keep_constant(n, n.inputs[1 - left] + ":laid_out", *constant_b, a.type.strides);
  } else {
    b = get(n, 1 - left);
    if (b.type.shape == output) b = in_layout(n, b, a.type.strides);
  }
  const op::activations then = absorb_activations(result, false);
  const tensor_type type = dense(output, a.type.strides);
  op::created made = op::binary(binary_kind_of(n.op), a.type, widened(b.type, output.size()), type, then);
  define(result, emit(n, result, {a.id, b.id}, type, std::move(made), {0}));
  return true;
}

std::vector<const tensor*> lowering::batch_statistics(const node& n) const {
  std::vector<const tensor*> constants;
  if (attribute_or<std::int64_t>(m_, n, "training_mode", 0) != 0) return constants;
  const std::size_t channels =
      shape_of(n.inputs[0]).size() < 2 ? 0 : static_cast<std::size_t>(shape_of(n.inputs[0])[1]);
  for (std::size_t i = 1; i <= 4; ++i) {
    const tensor* t = constant_input(n, i);
    if (t == nullptr || t->type != element::f32 || t->data.size() != channels * 4) {
      return {};
    }
    constants.push_back(t);
  }
  return constants;
}

bool lowering::batch_normalization(const node& n) {
  const auto statistics = batch_statistics(n);
  if (statistics.empty()) return false;
  const affine a = affine_of(m_, n, statistics);
  placed x = get(n, 0);
  if (!is_dense(x.type)) x = as_row_major(n, x);
  shape per_channel(x.type.shape.size(), 1);
  per_channel[1] = x.type.shape[1];
  const tensor_type type = dense(x.type.shape, x.type.strides);
  std::string result = n.outputs[0];
  const placed scale =
      keep_constant(n, result + ":scale", float_tensor(per_channel, a.scale), op::row_major(per_channel));
  const placed shift =
      keep_constant(n, result + ":shift", float_tensor(per_channel, a.shift), op::row_major(per_channel));
  const placed scaled = emit(n, result + ":scaled", {x.id, scale.id}, type,
                             op::binary(op::binary_kind::multiply, x.type, scale.type, type, {}), {0});
  const op::activations then = absorb_activations(result, false);
  define(result, emit(n, result, {scaled.id, shift.id}, type,
                      op::binary(op::binary_kind::add, type, shift.type, type, then), {0}));
  return true;
}

bool lowering::layer_normalization(const node& n) {
  const shape& wanted = shape_of(n.inputs[0]);
  const auto rank = static_cast<std::int64_t>(wanted.size());
  const std::int64_t width = wanted.back();
  const auto axis = attribute_or<std::int64_t>(m_, n, "axis", -1);
  const auto fits = [&](std::size_t i) { return shape_of(n.inputs[i]) == shape{width}; };
  if (rank < 2 || (axis != -1 && axis != rank - 1) || n.outputs.size() > 1 || !fits(1) || (has_input(n, 2) && !fits(2)))
    return false;
  const placed x = as_row_major(n, get(n, 0));
  room_.unroll(m_, n, width);
  const placed scale = get(n, 1);
  const placed shift =
      has_input(n, 2) ? get(n, 2)
                      : keep_constant(n, n.outputs[0] + ":shift",
                                      float_tensor({width}, std::vector<float>(static_cast<std::size_t>(width))), {4});
  op::created made = op::layer_normalization(x.type, x.type, attribute_or(m_, n, "epsilon", 1e-5f));
  define(n.outputs[0],
         emit(n, n.outputs[0], {x.id, scale.id, shift.id}, dense(x.type.shape, x.type.strides), std::move(made), {0}));
  return true;
}

bool lowering::softmax(const node& n) {
  const auto rank = static_cast<std::int64_t>(shape_of(n.inputs[0]).size());
  const bool flattens = m_.opset < 13;  // before opset 13 everything from the axis on was one dimension
  const auto axis = static_cast<std::int64_t>(op::axis_of(request(n), flattens ? 1 : -1, rank));
  if (flattens && axis != rank - 1) return false;
  placed x = get(n, 0);
  if (!is_dense(x.type)) x = as_row_major(n, x);
  const tensor_type type = dense(x.type.shape, x.type.strides);
  define(n.outputs[0], emit(n, n.outputs[0], {x.id}, type, op::softmax(x.type, type, static_cast<int>(axis)), {0}));
  return true;
}

bool lowering::pooling(const node& n) {
  if (!library_has_windows(shape_of(n.inputs[0]))) return false;
  const std::string& result = n.outputs[0];
  tensor_type type = dense(shape_of(result), op::channels_last(shape_of(result)));
  if (n.op == "GlobalAveragePool") {
    const placed x = as_channels_last(n, get(n, 0));
    define(result, emit(n, result, {x.id}, type, spatial_mean(x.type, type)));
    return true;
  }
  if (n.outputs.size() > 1) return false;  // the indices
  const shape s = shape_of(n.inputs[0]);
  op::window w = op::window_of(request(n), s, {});
  const bool counts_padding = attribute_or<std::int64_t>(m_, n, "count_include_pad", 0) != 0;
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    // The window reaches past the declared padding if ceil_mode adds a step.
    const std::int64_t reach = (type.shape[i + 2] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    const std::int64_t beyond = reach - s[i + 2] - w.pads_begin[i] - w.pads_end[i];
    if (beyond > 0 && n.op == "AveragePool" && counts_padding) return false;
    w.pads_end[i] += std::max<std::int64_t>(beyond, 0);
  }
  const placed x = as_channels_last(n, get(n, 0));
  room_.unroll(m_, n, unrolled(w));
  const op::pool_kind kind = n.op == "MaxPool" ? op::pool_kind::maximum
                             : counts_padding  ? op::pool_kind::average_with_padding
                                               : op::pool_kind::average;
  define(result, emit(n, result, {x.id}, type, op::pooling(kind, x.type, type, w)));
  return true;
}

bool lowering::reduce_mean(const node& n) {
  const auto axes = op::reduced_axes(request(n));
  if (axes.empty()) return false;
  const shape kept = op::reduced(shape_of(n.inputs[0]), axes, true);
  if (kept == shape_of(n.inputs[0])) return reshape(n);  // each is the mean of itself
  placed x = get(n, 0);
  if (!is_dense(x.type)) x = as_row_major(n, x);
  const tensor_type type = dense(kept, op::row_major(kept));
  const bool spatial = kept.size() > 2 && library_has_windows(kept) && kept[0] == x.type.shape[0] &&
                       kept[1] == x.type.shape[1] &&
                       std::all_of(kept.begin() + 2, kept.end(), [](std::int64_t d) { return d == 1; });
  placed made;
  if (spatial) {  // what global average pooling is
    x = as_channels_last(n, x);
    made = emit(n, n.outputs[0], {x.id}, type, spatial_mean(x.type, type));
  } else {
    made = emit(n, n.outputs[0], {x.id}, type, op::mean(x.type, type));
  }
  const shape& result = shape_of(n.outputs[0]);
  if (result != kept) made = view(made, dense(result, op::row_major(result)));
  define(n.outputs[0], made);
  return true;
}

}  // namespace berth::model
