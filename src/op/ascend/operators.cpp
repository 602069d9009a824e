#include "op/ascend/operators.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "op/ascend/operation.hpp"
#include "op/shapes.hpp"

namespace berth::op::ascend {
namespace {

using tensors = tensor_handle* const*;
using sizes = std::uint64_t*;
using made = executor_handle**;
using asking = decltype(call::ask);

// What a row has at hand while it says how its operator is asked.
struct setting {
  const functions& acl;
  const request& q;
  const std::vector<tensor_type>& outputs;
  call how;           // its types may be changed
  void* first;        // the first phase's function
  std::size_t given;  // operands that are inputs

  [[nodiscard]] std::size_t rank() const { return q.inputs[0]->shape.size(); }
};

template <class... Parameters>
status asked_of(void* function, Parameters... parameters) {
  return reinterpret_cast<status (*)(Parameters...)>(function)(parameters...);
}

// Scalars and arrays live as long as what asks with them.
using scalar = std::shared_ptr<const scalar_handle>;
using array = std::shared_ptr<const array_handle>;

scalar scalar_of(const setting& s, element type, const void* value) {
  return {s.acl.aclCreateScalar(const_cast<void*>(value), data_type(type)),  // copied there
          [&acl = s.acl](const scalar_handle* h) { acl.aclDestroyScalar(h); }};
}
scalar scalar_of(const setting& s, float value) {
  return scalar_of(s, element::f32, &value);
}
array array_of(const setting& s, const std::vector<std::int64_t>& values) {
  return {s.acl.aclCreateIntArray(values.data(), values.size()),
          [&acl = s.acl](const array_handle* h) { acl.aclDestroyIntArray(h); }};
}
template <class From>
array array_of(const setting& s, const From& values) {
  return array_of(s, std::vector<std::int64_t>(values.begin(), values.end()));
}

element type_of(const setting& s) {
  return s.q.inputs[0]->type;
}
void require(bool holds, const char* why) {
  if (!holds) refuse(why);
}

// Both functions of the operator of that name.
void take_functions(setting& s, const char* name) {
  s.how.name = name;
  s.first = s.acl.find((std::string{name} + "GetWorkspaceSize").c_str());
  s.how.run = reinterpret_cast<second_phase*>(s.acl.find(name));
  if (s.first == nullptr || s.how.run == nullptr) refuse(std::string{"this CANN lacks "} + name);
}

// --- how an operator is asked, by the form of its parameters ---

asking one(setting& s) {
  return [f = s.first](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, tensor_handle*, sizes, made>(f, t[0], t[1], w, e);
  };
}

asking two(setting& s) {
  require(s.given == 2, "the device's operator takes two inputs");
  return [f = s.first](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const tensor_handle*, tensor_handle*, sizes, made>(f, t[0], t[1], t[2], w, e);
  };
}

asking divide(setting& s) {
  require(is_real(type_of(s)), "the device divides real numbers only");
  return two(s);
}

asking add(setting& s) {
  require(s.given == 2, "the device's operator takes two inputs");
  constexpr std::int64_t unit = 1;  // integers are scaled by an integer
  return [f = s.first, alpha = is_real(type_of(s)) ? scalar_of(s, 1.0F) : scalar_of(s, element::i64, &unit)](
             tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const tensor_handle*, const scalar_handle*, tensor_handle*, sizes, made>(
        f, t[0], t[1], alpha.get(), t[2], w, e);
  };
}

asking where(setting& s) {
  return [f = s.first](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const tensor_handle*, const tensor_handle*, tensor_handle*, sizes, made>(
        f, t[0], t[1], t[2], t[3], w, e);
  };
}

// With a number, the output's place aside: a dimension, a diagonal, an approximation.
asking numbered(setting& s, std::int64_t number) {
  return [f = s.first, number](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, tensor_handle*, sizes, made>(f, t[0], number, t[1], w, e);
  };
}

asking softmax(setting& s) {
  const auto rank = static_cast<std::int64_t>(s.rank());
  const bool flattens = s.q.opset < 13;  // everything from the axis on was one dimension
  const auto axis = static_cast<std::int64_t>(axis_of(s.q, flattens ? 1 : -1, rank));
  require(!flattens || axis == rank - 1, "the device computes it along one dimension (opset 13)");
  return numbered(s, axis);
}

asking gelu(setting& s) {
  const auto approximate = attribute_or<std::string>(s.q, "approximate", "none");
  return numbered(s, approximate == "tanh" ? 1 : 0);
}

asking triangle(setting& s) {
  if (attribute_or<std::int64_t>(s.q, "upper", 1) == 0) take_functions(s, "aclnnTril");
  return numbered(s, has(s.q, 1) ? integers(s.q, 1).at(0) : 0);
}

asking with_alpha(setting& s, float fallback) {
  const float alpha = attribute_or<float>(s.q, "alpha", fallback);
  return [f = s.first, a = scalar_of(s, alpha)](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const scalar_handle*, tensor_handle*, sizes, made>(f, t[0], a.get(), t[1], w,
                                                                                             e);
  };
}
asking leaky(setting& s) {
  return with_alpha(s, 0.01F);
}
asking celu(setting& s) {
  return with_alpha(s, 1);
}
asking elu(setting& s) {
  const float alpha = attribute_or<float>(s.q, "alpha", 1);
  return [f = s.first, a = scalar_of(s, alpha), unit = scalar_of(s, 1.0F)](tensors t, const list_handle*, sizes w,
                                                                           made e) {
    return asked_of<const tensor_handle*, const scalar_handle*, const scalar_handle*, const scalar_handle*,
                    tensor_handle*, sizes, made>(f, t[0], a.get(), unit.get(), unit.get(), t[1], w, e);
  };
}
asking hard_sigmoid(setting& s) {
  const bool usual =
      attribute_or<float>(s.q, "alpha", 0.2F) == 1.0F / 6 && attribute_or<float>(s.q, "beta", 0.5F) == 0.5F;
  require(usual, "the device's slope is 1/6");
  return one(s);
}

asking clamp(setting& s) {
  scalar low, high;
  const auto bound = [&](std::size_t input, const char* attribute) -> scalar {
    const auto named = s.q.attributes.find(attribute);
    if (named != s.q.attributes.end()) {
      return scalar_of(s, std::get<float>(named->second));
    }
    if (!has(s.q, input)) return {};
    require(input < s.q.constants.size() && s.q.constants[input] != nullptr,
            "the device takes bounds that are constants only");
    const op::tensor& exact = *s.q.constants[input];  // a double has not every i64
    require(exact.data.size() == element_size(exact.type), "a bound is one number");
    return scalar_of(s, exact.type, exact.data.data());
  };
  low = bound(1, "min");
  high = bound(2, "max");
  require(low != nullptr || high != nullptr, "the device wants a bound");
  return [f = s.first, low, high, out = s.given](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const scalar_handle*, const scalar_handle*, tensor_handle*, sizes, made>(
        f, t[0], low.get(), high.get(), t[out], w, e);
  };
}

asking cast(setting& s) {
  return [f = s.first, type = data_type(s.outputs[0].type), out = s.given](tensors t, const list_handle*, sizes w,
                                                                           made e) {
    return asked_of<const tensor_handle*, int, tensor_handle*, sizes, made>(f, t[0], type, t[out], w, e);
  };
}

asking copy(setting& s) {
  return [f = s.first](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<tensor_handle*, const tensor_handle*, sizes, made>(f, t[1], t[0], w, e);
  };
}

asking matmul(setting& s) {
  return [f = s.first](tensors t, const list_handle*, sizes w, made e) {
    constexpr std::int8_t keep_type = 0;
    return asked_of<const tensor_handle*, const tensor_handle*, tensor_handle*, std::int8_t, sizes, made>(
        f, t[0], t[1], t[2], keep_type, w, e);
  };
}

// beta c + alpha a b, or a b alone, with a or b read by columns.
asking gemm(setting& s) {
  const auto turned = [&](const char* attribute, std::size_t k) {
    if (attribute_or<std::int64_t>(s.q, attribute, 0) == 0) return;
    std::swap(s.how.types[k].shape[0], s.how.types[k].shape[1]);
    std::swap(s.how.types[k].strides[0], s.how.types[k].strides[1]);
  };
  turned("transA", 0);
  turned("transB", 1);
  if (s.given == 2) {
    require(attribute_or<float>(s.q, "alpha", 1) == 1, "the device scales a product only where something is added");
    take_functions(s, "aclnnMatmul");
    return matmul(s);
  }
  const auto number = [&](const char* name) { return scalar_of(s, attribute_or<float>(s.q, name, 1)); };
  return [f = s.first, alpha = number("alpha"), beta = number("beta")](tensors t, const list_handle*, sizes w, made e) {
    constexpr std::int8_t keep_type = 0;
    return asked_of<const tensor_handle*, const tensor_handle*, const tensor_handle*, const scalar_handle*,
                    const scalar_handle*, tensor_handle*, std::int8_t, sizes, made>(f, t[2], t[0], t[1], beta.get(),
                                                                                    alpha.get(), t[3], keep_type, w, e);
  };
}

asking sum(setting& s) {
  return
      [f = s.first, axes = array_of(s, reduced_axes(s.q)), keep = attribute_or<std::int64_t>(s.q, "keepdims", 1) != 0,
       type = data_type(s.outputs[0].type)](tensors t, const list_handle*, sizes w, made e) {
        return asked_of<const tensor_handle*, const array_handle*, bool, int, tensor_handle*, sizes, made>(
            f, t[0], axes.get(), keep, type, t[1], w, e);
      };
}
asking extreme(setting& s) {
  return [f = s.first, axes = array_of(s, reduced_axes(s.q)),
          keep = attribute_or<std::int64_t>(s.q, "keepdims", 1) != 0](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const array_handle*, bool, tensor_handle*, sizes, made>(f, t[0], axes.get(),
                                                                                                  keep, t[1], w, e);
  };
}
asking index_of_extreme(setting& s) {
  require(attribute_or<std::int64_t>(s.q, "select_last_index", 0) == 0, "the device takes the first of equals");
  return [f = s.first, axis = static_cast<std::int64_t>(axis_of(s.q, 0, static_cast<std::int64_t>(s.rank()))),
          keep = attribute_or<std::int64_t>(s.q, "keepdims", 1) != 0](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, bool, tensor_handle*, sizes, made>(f, t[0], axis, keep, t[1], w,
                                                                                           e);
  };
}

asking cumulate(setting& s) {
  const bool usual =
      attribute_or<std::int64_t>(s.q, "exclusive", 0) == 0 && attribute_or<std::int64_t>(s.q, "reverse", 0) == 0;
  require(usual, "the device sums forwards, the element included");
  return [f = s.first, axis = integers(s.q, 1).at(0), type = data_type(s.outputs[0].type)](
             tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, int, tensor_handle*, sizes, made>(f, t[0], axis, type, t[1], w,
                                                                                          e);
  };
}

asking top(setting& s) {
  require(s.outputs.size() == 2, "the device gives values and indices");
  return [f = s.first, k = integers(s.q, 1).at(0), axis = attribute_or<std::int64_t>(s.q, "axis", -1),
          largest = attribute_or<std::int64_t>(s.q, "largest", 1) != 0,
          sorted = attribute_or<std::int64_t>(s.q, "sorted", 1) != 0](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, std::int64_t, bool, bool, tensor_handle*, tensor_handle*, sizes,
                    made>(f, t[0], k, axis, largest, sorted, t[1], t[2], w, e);
  };
}

asking layer_norm(setting& s) {
  require(s.outputs.size() == 1 || s.outputs.size() == 3, "the device gives mean and deviation both or neither");
  const shape& whole = shape_of(s.q, 0);
  const std::size_t axis = axis_of(s.q, -1, static_cast<std::int64_t>(whole.size()));
  const shape normalized(whole.begin() + static_cast<std::ptrdiff_t>(axis), whole.end());
  require(shape_of(s.q, 1) == normalized, "the device's scale has the shape that is normalised");
  return [f = s.first, normalized = array_of(s, normalized), shift = has(s.q, 2), given = s.given,
          results = s.outputs.size(), epsilon = static_cast<double>(attribute_or<float>(s.q, "epsilon", 1e-5F))](
             tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const array_handle*, const tensor_handle*, const tensor_handle*, double,
                    tensor_handle*, tensor_handle*, tensor_handle*, sizes, made>(
        f, t[0], normalized.get(), t[1], shift ? t[2] : nullptr, epsilon, t[given],
        results == 3 ? t[given + 1] : nullptr, results == 3 ? t[given + 2] : nullptr, w, e);
  };
}

asking with_array(setting& s, const std::vector<std::int64_t>& values) {
  return [f = s.first, values = array_of(s, values)](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const array_handle*, tensor_handle*, sizes, made>(f, t[0], values.get(), t[1],
                                                                                            w, e);
  };
}
asking permute(setting& s) {
  const auto order = permutation(s.q);
  return with_array(s, {order.begin(), order.end()});
}
asking expand(setting& s) {
  return with_array(s, s.outputs[0].shape);
}
asking tile(setting& s) {
  return with_array(s, integers(s.q, 1));
}

asking concatenate(setting& s) {
  s.how.listed = s.given;
  return [f = s.first, axis = static_cast<std::int64_t>(axis_of(s.q, 0, static_cast<std::int64_t>(s.rank()))),
          out = s.given](tensors t, const list_handle* list, sizes w, made e) {
    return asked_of<const list_handle*, std::int64_t, tensor_handle*, sizes, made>(f, list, axis, t[out], w, e);
  };
}

asking slice(setting& s) {
  const slicing cut = sliced(s.q);
  std::vector<std::int64_t> ends, axes;
  for (std::size_t d = 0; d < cut.result.size(); ++d) {
    require(cut.step[d] > 0, "the device's steps go forwards");
    ends.push_back(cut.start[d] + (cut.result[d] - 1) * cut.step[d] + 1);
    axes.push_back(static_cast<std::int64_t>(d));
  }
  return [f = s.first, starts = array_of(s, cut.start), ends = array_of(s, ends), axes = array_of(s, axes),
          steps = array_of(s, cut.step)](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const array_handle*, const array_handle*, const array_handle*,
                    const array_handle*, tensor_handle*, sizes, made>(f, t[0], starts.get(), ends.get(), axes.get(),
                                                                      steps.get(), t[1], w, e);
  };
}

asking gather(setting& s) {
  return [f = s.first, axis = static_cast<std::int64_t>(axis_of(s.q, 0, static_cast<std::int64_t>(s.rank())))](
             tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, const tensor_handle*, tensor_handle*, sizes, made>(
        f, t[0], axis, t[1], t[2], w, e);
  };
}

struct row {
  const char* name;  // aclnn's
  asking (*how)(setting&);
};

const row* find_row(const std::string& op) {
  static const std::map<std::string, row, std::less<>> all{
      {"Abs", {"aclnnAbs", one}},
      {"Acos", {"aclnnAcos", one}},
      {"Acosh", {"aclnnAcosh", one}},
      {"Add", {"aclnnAdd", add}},
      {"And", {"aclnnLogicalAnd", two}},
      {"ArgMax", {"aclnnArgMax", index_of_extreme}},
      {"ArgMin", {"aclnnArgMin", index_of_extreme}},
      {"Asin", {"aclnnAsin", one}},
      {"Asinh", {"aclnnAsinh", one}},
      {"Atan", {"aclnnAtan", one}},
      {"Atanh", {"aclnnAtanh", one}},
      {"BitwiseAnd", {"aclnnBitwiseAndTensor", two}},
      {"BitwiseOr", {"aclnnBitwiseOrTensor", two}},
      {"BitwiseXor", {"aclnnBitwiseXorTensor", two}},
      {"Cast", {"aclnnCast", cast}},
      {"CastLike", {"aclnnCast", cast}},
      {"Ceil", {"aclnnCeil", one}},
      {"Celu", {"aclnnCelu", celu}},
      {"Clip", {"aclnnClamp", clamp}},
      {"Concat", {"aclnnCat", concatenate}},
      {"Cos", {"aclnnCos", one}},
      {"Cosh", {"aclnnCosh", one}},
      {"CumSum", {"aclnnCumsum", cumulate}},
      {"Div", {"aclnnDiv", divide}},
      {"Elu", {"aclnnElu", elu}},
      {"Equal", {"aclnnEqTensor", two}},
      {"Erf", {"aclnnErf", one}},
      {"Exp", {"aclnnExp", one}},
      {"Expand", {"aclnnExpand", expand}},
      {"Floor", {"aclnnFloor", one}},
      {"Gather", {"aclnnGatherV2", gather}},
      {"GatherElements", {"aclnnGather", gather}},
      {"Gelu", {"aclnnGeluV2", gelu}},
      {"Gemm", {"aclnnAddmm", gemm}},
      {"Greater", {"aclnnGtTensor", two}},
      {"GreaterOrEqual", {"aclnnGeTensor", two}},
      {"HardSigmoid", {"aclnnHardsigmoid", hard_sigmoid}},
      {"HardSwish", {"aclnnHardswish", one}},
      {"Identity", {"aclnnInplaceCopy", copy}},
      {"LayerNormalization", {"aclnnLayerNorm", layer_norm}},
      {"LeakyRelu", {"aclnnLeakyRelu", leaky}},
      {"Less", {"aclnnLtTensor", two}},
      {"LessOrEqual", {"aclnnLeTensor", two}},
      {"Log", {"aclnnLog", one}},
      {"LogSoftmax", {"aclnnLogSoftmax", softmax}},
      {"MatMul", {"aclnnMatmul", matmul}},
      {"Max", {"aclnnMaximum", two}},
      {"Min", {"aclnnMinimum", two}},
      {"Mish", {"aclnnMish", one}},
      {"Mul", {"aclnnMul", two}},
      {"Neg", {"aclnnNeg", one}},
      {"Not", {"aclnnLogicalNot", one}},
      {"Or", {"aclnnLogicalOr", two}},
      {"Pow", {"aclnnPowTensorTensor", two}},
      {"Reciprocal", {"aclnnReciprocal", one}},
      {"ReduceMax", {"aclnnAmax", extreme}},
      {"ReduceMean", {"aclnnMean", sum}},
      {"ReduceMin", {"aclnnAmin", extreme}},
      {"ReduceSum", {"aclnnReduceSum", sum}},
      {"Relu", {"aclnnRelu", one}},
      {"Round", {"aclnnRound", one}},
      {"Sigmoid", {"aclnnSigmoid", one}},
      {"Sign", {"aclnnSign", one}},
      {"Sin", {"aclnnSin", one}},
      {"Sinh", {"aclnnSinh", one}},
      {"Slice", {"aclnnSliceV2", slice}},
      {"Softmax", {"aclnnSoftmax", softmax}},
      {"Sqrt", {"aclnnSqrt", one}},
      {"Sub", {"aclnnSub", add}},
      {"Tan", {"aclnnTan", one}},
      {"Tanh", {"aclnnTanh", one}},
      {"Tile", {"aclnnRepeat", tile}},
      {"TopK", {"aclnnTopk", top}},
      {"Transpose", {"aclnnPermute", permute}},
      {"Trilu", {"aclnnTriu", triangle}},
      {"Where", {"aclnnSWhere", where}},
      {"Xor", {"aclnnLogicalXor", two}},
  };
  const auto found = all.find(op);
  return found == all.end() ? nullptr : &found->second;
}

served serve_on(const device& on, const functions& acl, const request& q, std::vector<tensor_type> outputs) {
  // The table's own kernel says what the request means and where a result may lie; it is not run.
  served s = serve(q, std::move(outputs));
  if (s.run == nullptr) return s;
  const row* r = find_row(q.op);
  if (r == nullptr) refuse("the device " + on.properties().name + " has no operator for it");
  setting how{acl, q, s.outputs, {}, nullptr, 0};
  take_functions(how, r->name);
  std::vector<operand_rule> rules;
  for (const std::size_t i : operands_of(q)) how.how.types.push_back(*q.inputs[i]);
  how.given = how.how.types.size();
  how.how.types.insert(how.how.types.end(), s.outputs.begin(), s.outputs.end());
  for (std::size_t k = 0; k < how.how.types.size(); ++k) {
    tensor_type& t = how.how.types[k];
    t.strides = strides_of(t);
    require(t.shape.size() <= most_dimensions, "the device's tensors have at most 8 dimensions");
    require(std::all_of(t.strides.begin(), t.strides.end(), [](std::int64_t by) { return by >= 0; }),
            "the device reads forwards only");
    rules.push_back(s.run->operand(k));
  }
  const in_context current{acl, on.native()};
  how.how.ask = r->how(how);
  s.run = make_operation(acl, on, std::move(how.how), rules);
  return s;
}

}  // namespace

result<server> operators_of(const device& d) {
  const functions* acl = load();
  if (acl == nullptr) return error{errc::unsupported, "ascend: this CANN has no operators (aclnn)"};
  return server{[d, acl](const request& q, std::vector<tensor_type> outputs) {
    return serve_on(d, *acl, q, std::move(outputs));
  }};
}

}  // namespace berth::op::ascend
