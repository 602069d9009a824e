// Functions of each element, of one tensor or of two.
#include "op/ascend/rows.hpp"

namespace berth::op::ascend {
namespace {

asking divide(setting& s) {
  require(is_real(type_of(s)), "the device divides real numbers only");
  return two(s);
}

asking add(setting& s) {
  require(s.given == 2, "the device's operator takes two inputs");
  constexpr std::int64_t unit = 1;  // integers are scaled by an integer
  const scalar alpha = is_real(type_of(s)) ? scalar_of(s, 1.0F) : scalar_of(s, element::i64, &unit);
  return asks(s, in{0}, in{1}, alpha, out{2});
}

asking where(setting& s) {
  return asks(s, in{0}, in{1}, in{2}, out{3});
}

asking gelu(setting& s) {
  const auto approximate = attribute_or<std::string>(s.q, "approximate", "none");
  return numbered(s, approximate == "tanh" ? 1 : 0);
}

asking with_alpha(setting& s, float fallback) {
  return asks(s, in{0}, scalar_of(s, attribute_or<float>(s.q, "alpha", fallback)), out{1});
}
asking leaky(setting& s) {
  return with_alpha(s, 0.01F);
}
asking celu(setting& s) {
  return with_alpha(s, 1);
}
asking elu(setting& s) {
  const scalar alpha = scalar_of(s, attribute_or<float>(s.q, "alpha", 1)), unit = scalar_of(s, 1.0F);
  return asks(s, in{0}, alpha, unit, unit, out{1});
}
asking hard_sigmoid(setting& s) {
  const bool usual =
      attribute_or<float>(s.q, "alpha", 0.2F) == 1.0F / 6 && attribute_or<float>(s.q, "beta", 0.5F) == 0.5F;
  require(usual, "the device's slope is 1/6");
  return one(s);
}

asking clamp(setting& s) {
  const auto computed = [&](std::size_t i) {
    return has(s.q, i) && (i >= s.q.constants.size() || s.q.constants[i] == nullptr);
  };
  if (computed(1) || computed(2)) {  // at run time: tensors, either of which may be left out
    take_functions(s, "aclnnClampTensor");
    s.how.apart = true;  // it may pass over the input more than once
    return asks(s, in{0}, in{has(s.q, 1) ? 1 : nothing}, in{has(s.q, 2) ? s.given - 1 : nothing}, out{s.given});
  }
  scalar low, high;
  const auto bound = [&](std::size_t input, const char* attribute) -> scalar {
    const auto named = s.q.attributes.find(attribute);
    if (named != s.q.attributes.end()) {
      return scalar_of(s, std::get<float>(named->second));
    }
    if (!has(s.q, input)) return {};
    return constant_of(s, input);
  };
  low = bound(1, "min");
  high = bound(2, "max");
  require(low != nullptr || high != nullptr, "the device wants a bound");
  return asks(s, in{0}, low, high, out{s.given});
}

asking cast(setting& s) {
  return asks(s, in{0}, data_type(s.outputs[0].type), out{s.given});
}

asking copy(setting& s) {
  return asks(s, out{1}, in{0});
}

constexpr row elementwise_table[] = {
    {"Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Mish Neg Reciprocal Relu Round "
     "Sigmoid Sign Sin Sinh Sqrt Tan Tanh",
     nullptr, one},
    {"Add Sub", nullptr, add},
    {"Cast", nullptr, cast},
    {"Celu", nullptr, celu},
    {"Div", nullptr, divide},
    {"Elu", nullptr, elu},
    {"LeakyRelu", nullptr, leaky},
    {"Mul", nullptr, two},
    {"And", "aclnnLogicalAnd", two},
    {"BitwiseAnd", "aclnnBitwiseAndTensor", two},
    {"BitwiseOr", "aclnnBitwiseOrTensor", two},
    {"BitwiseXor", "aclnnBitwiseXorTensor", two},
    {"CastLike", "aclnnCast", cast},
    {"Clip", "aclnnClamp", clamp},
    {"Equal", "aclnnEqTensor", two},
    {"Gelu", "aclnnGeluV2", gelu},
    {"Greater", "aclnnGtTensor", two},
    {"GreaterOrEqual", "aclnnGeTensor", two},
    {"HardSigmoid", "aclnnHardsigmoid", hard_sigmoid},
    {"HardSwish", "aclnnHardswish", one},
    {"Identity", "aclnnInplaceCopy", copy},
    {"Less", "aclnnLtTensor", two},
    {"LessOrEqual", "aclnnLeTensor", two},
    {"Max", "aclnnMaximum", two},
    {"Min", "aclnnMinimum", two},
    {"Not", "aclnnLogicalNot", one},
    {"Or", "aclnnLogicalOr", two},
    {"Pow", "aclnnPowTensorTensor", two},
    {"Where", "aclnnSWhere", where},
    {"Xor", "aclnnLogicalXor", two},
};

}  // namespace

const rows elementwise_rows{elementwise_table};

}  // namespace berth::op::ascend
