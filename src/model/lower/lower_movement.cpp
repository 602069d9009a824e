// Lowering of the operators that move or rename data: views if strides can express them, else one copy. And the table
// of all operators.
#include <algorithm>

#include "model/lower/lowering.hpp"
#include "model/onnx/fold.hpp"
#include "op/by_name.hpp"
#include "op/plain/plain.hpp"

namespace berth::model {

bool lowering::transpose(const node& n) {
  const placed x = get(n, 0);
  tensor_type type{{}, x.type.type, 0, {}};
  for (const std::size_t d : op::permutation(request(n))) {
    type.shape.push_back(x.type.shape[d]);
    type.strides.push_back(x.type.strides[d]);
  }
  define(n.outputs[0], view(x, std::move(type)));
  return true;
}

bool lowering::reshape(const node& n) {
  if (n.outputs.size() > 1) return false;  // Dropout's mask
  placed x = get(n, 0);
  const shape& to = shape_of(n.outputs[0]);
  auto by = reshaped_strides(x.type, to);
  if (!by) {
    x = as_row_major(n, x);
    by = row_major(to, x.type.type);
  }
  define(n.outputs[0], view(x, {to, x.type.type, 0, *std::move(by)}));
  return true;
}

placed lowering::cut(const node& n, const placed& x, const op::slicing& s) {
  tensor_type type{s.result, x.type.type, 0, x.type.strides};
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

bool lowering::slice(const node& n) {
  const op::slicing s = op::sliced(request(n));
  // A view's strides are not below 0.
  if (std::any_of(s.step.begin(), s.step.end(), [](std::int64_t step) { return step < 0; })) return false;
  define(n.outputs[0], cut(n, get(n, 0), s));
  return true;
}

bool lowering::split(const node& n) {
  const placed x = get(n, 0);
  const op::request q = request(n);
  const std::size_t axis = op::axis_of(q, 0, static_cast<std::int64_t>(x.type.shape.size()));
  const auto sizes = op::split_sizes(q);
  op::slicing s{x.type.shape, shape(x.type.shape.size(), 0), shape(x.type.shape.size(), 1)};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    s.result[axis] = sizes[i];
    if (!n.outputs[i].empty() && sizes[i] != 0) define(n.outputs[i], cut(n, x, s));
    s.start[axis] += sizes[i];
  }
  return true;
}

bool lowering::concatenation(const node& n) {
  const std::string& result = n.outputs[0];
  const shape& output = shape_of(result);
  const std::size_t axis = op::axis_of(request(n), m_.opset < 4 ? 1 : 0, static_cast<std::int64_t>(output.size()));
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
  return true;
}

bool lowering::pad(const node& n) {
  if (attribute_or<std::string>(m_, n, "mode", "constant") != "constant") return false;
  float value = attribute_or(m_, n, "value", 0.0f);
  if (has_input(n, 2)) {
    const tensor* t = constant_input(n, 2);
    if (t == nullptr || t->data.size() != sizeof(float)) return false;
    value = floats(m_, called(n), *t).front();
  }
  const auto pads = op::paddings(request(n));
  if (std::any_of(pads.begin(), pads.end(), [](std::int64_t p) { return p < 0; })) return false;  // it crops
  placed x = get(n, 0);
  if (!is_channels_last(x.type)) x = as_row_major(n, x);
  const shape& output = shape_of(n.outputs[0]);
  const tensor_type type = dense(output, is_channels_last(x.type) ? op::channels_last(output) : op::row_major(output));
  const shape begin(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(output.size()));
  define(n.outputs[0], emit(n, n.outputs[0], {x.id}, type, op::pad(x.type, type, begin, value)));
  return true;
}

// Adds the node with operands as they lie, or row-major if the kernel cannot read them so. A result of the first
// operand's shape, or an image of another size, takes its layout, so that channels-last tensors stay that.
void lowering::plain(const node& n) {
  op::request q = request(n);
  const auto operands = op::operands_of(q);
  std::vector<placed> placed_at;
  for (const std::size_t i : operands) {
    placed_at.push_back(get(n, i));
    q.inputs[i]->strides = placed_at.back().type.strides;
  }
  op::served made;
  try {
    std::vector<tensor_type> like;
    const bool dense_first = !placed_at.empty() && is_channels_last(placed_at[0].type) && n.outputs.size() == 1;
    const tensor_type inferred = dense_first ? op::infer(q)[0] : tensor_type{};
    const bool image = n.op == "Resize" || n.op == "Upsample";
    if (dense_first && (image || inferred.shape == placed_at[0].type.shape)) {
      like.push_back(dense(inferred.shape, channels_last(inferred.shape, inferred.type), inferred.type));
    }
    made = serve(q, like);
  } catch (const op::refusal&) {
    for (std::size_t k = 0; k < operands.size(); ++k) {
      placed_at[k] = as_row_major(n, placed_at[k]);
      q.inputs[operands[k]]->strides = placed_at[k].type.strides;
    }
    made = serve(q);
  }
  if (const auto* own = dynamic_cast<const op::plain_operation*>(made.run.get())) room_.take(m_, n, own->held());
  std::vector<value_id> inputs;
  std::vector<std::uint32_t> in_place;
  for (std::size_t k = 0; k < placed_at.size(); ++k) {
    inputs.push_back(placed_at[k].id);
    if (made.run->operand(k).may_overwrite) in_place.push_back(static_cast<std::uint32_t>(k));
  }
  if (n.outputs.size() == 1) {
    tensor_type type = dense(made.outputs[0].shape, made.outputs[0].strides, made.outputs[0].type);
    define(n.outputs[0],
           emit(n, n.outputs[0], std::move(inputs), std::move(type), std::move(made.run), std::move(in_place)));
    return;
  }
  std::vector<tensor_type> types;
  for (const tensor_type& t : made.outputs) types.push_back(dense(t.shape, t.strides, t.type));
  node_options options;
  options.op = n.op;
  options.workspace = made.run->workspace();
  const auto results = out_.graph.node_n(n.outputs[0], std::move(inputs), types, std::move(options));
  out_.operations.push_back(std::move(made.run));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!n.outputs[i].empty()) define(n.outputs[i], {results[i], types[i]});
  }
}

// Better ways than the table's kernel: the library's, which take f32, and views, which take any type. The table's
// kernel computes operators not listed here, and those that their way refuses.
struct ways {
  struct way {
    const char* names;
    bool (lowering::*take)(const node&);
    bool any_type = false;
  };
  static const way* find(const std::string& op) {
    static constexpr way table[] = {
        {"BatchNormalization", &lowering::batch_normalization},
        {"Add Div Max Min Mul Pow Sub", &lowering::binary},
        {"Concat", &lowering::concatenation},
        {"Conv", &lowering::convolution},
        {"Abs Clip Elu Exp Gelu HardSwish LeakyRelu Neg Relu Sigmoid Sqrt Tanh", &lowering::elementwise},
        {"Gemm", &lowering::gemm},
        {"LayerNormalization", &lowering::layer_normalization},
        {"MatMul", &lowering::matmul},
        {"Pad", &lowering::pad},
        {"AveragePool GlobalAveragePool MaxPool", &lowering::pooling},
        {"ReduceMean", &lowering::reduce_mean},
        {"Dropout Flatten Identity Reshape Squeeze Unsqueeze", &lowering::reshape, true},
        {"Slice", &lowering::slice, true},
        {"Softmax", &lowering::softmax},
        {"Split", &lowering::split, true},
        {"Transpose", &lowering::transpose, true},
        {"ConvTranspose", &lowering::transposed_convolution},
    };
    static const auto& all = *new auto(op::by_name(table));
    return op::find_row(all, op);
  }
};

// Dimensions that oneDNN's kernels count.
constexpr std::size_t most_library_rank = 12;

void lowering::lower(const node& n) {
  try {
    const ways::way* better = ways::find(n.op);
    const op::request q = request(n);
    const auto operands = op::operands_of(q);
    const bool f32 =
        std::all_of(operands.begin(), operands.end(), [&](std::size_t i) { return q.inputs[i]->type == element::f32; });
    const bool some = std::all_of(operands.begin(), operands.end(), [&](std::size_t i) {
      const shape& s = q.inputs[i]->shape;
      return std::find(s.begin(), s.end(), 0) == s.end();
    });
    const bool few = std::all_of(operands.begin(), operands.end(),
                                 [&](std::size_t i) { return q.inputs[i]->shape.size() <= most_library_rank; });
    const bool known = better != nullptr && some && (better->any_type || (f32 && few && has_library_));
    if (known && (this->*better->take)(n)) return;
    plain(n);
  } catch (const op::refusal& why) {
    fail(n, why.what());
  }
}

}  // namespace berth::model
