// The operators of aclnn, each by the rows of Berth's table that compute it.
#include <algorithm>
#include <string>

#include "aclnnop/aclnn_simulated.h"
#include "operator.hpp"

using namespace ascend_simulator;

namespace {

namespace op = berth::op;
using operand = recipe::operand;

// Adds self and alpha times other: a product of its own if alpha is not 1.
void add(recipe& r, const char* row, const aclTensor* a, const aclTensor* b, const aclScalar* alpha,
         const aclTensor* out) {
  const operand self = r.in(a);
  operand other = r.in(b);
  if (recipe::value(alpha) != 1) {
    const operand scaled = r.between(other.type.shape, other.type.type);
    r.row("Mul", {other, r.constant(alpha, other.type.type)}, {scaled});
    other = scaled;
  }
  r.row(row, {self, other}, {r.out(out)});
}

void reduce(recipe& r, const char* row, const aclTensor* self, const aclIntArray* dims, bool keep,
            const aclTensor* out) {
  const operand x = r.in(self);
  std::vector<operand> inputs{x};
  op::attributes attributes{{"keepdims", std::int64_t{keep ? 1 : 0}}};
  // An input in the opset used here, an attribute in the others.
  if (std::string{row} == "ReduceSum") {
    inputs.push_back(recipe::list(values_of(dims)));
  } else if (!values_of(dims).empty()) {
    attributes["axes"] = values_of(dims);
  }
  r.row(row, inputs, {r.out(out)}, std::move(attributes));
}

void largest(recipe& r, const aclTensor* self, std::int64_t k, std::int64_t dim, bool most, bool sorted,
             const aclTensor* values, const aclTensor* indices) {
  const operand x = r.in(self), v = r.out(values);
  r.row("TopK", {x, recipe::list({k})}, {v, r.out(indices)},
        {{"axis", dim}, {"largest", std::int64_t{most}}, {"sorted", std::int64_t{sorted}}});
}

// Computes y = x gamma / rms, and 1 / rms. The latter has the rows' dimensions and 1 for each of the others.
void rms_norm(recipe& r, const aclTensor* given, const aclTensor* gamma, double epsilon, const aclTensor* y,
              const aclTensor* rstd) {
  const operand x = r.in(given), scale = r.in(gamma);
  const dimensions &whole = x.type.shape, &normalized = scale.type.shape;
  const auto first = static_cast<std::ptrdiff_t>(whole.size()) - static_cast<std::ptrdiff_t>(normalized.size());
  if (first < 0 || !std::equal(normalized.begin(), normalized.end(), whole.begin() + first)) {
    refuse_call("the shape of gamma is none of the input's last dimensions");
  }
  const operand result = r.out(y), inverse = r.out(rstd);
  r.row("RMSNormalization", {x, scale}, {result, r.between(inverse.type.shape, berth::element::f32), inverse},
        {{"axis", std::int64_t{first}}, {"epsilon", static_cast<float>(epsilon)}});
}

void layer_norm(recipe& r, const aclTensor* given, const aclIntArray* shape, const aclTensor* weight,
                const aclTensor* bias, double epsilon, const aclTensor* out, const aclTensor* mean,
                const aclTensor* rstd) {
  const operand x = r.in(given);
  const dimensions& normalized = values_of(shape);
  const dimensions& whole = x.type.shape;
  if (normalized.empty() || normalized.size() > whole.size() ||
      !std::equal(normalized.begin(), normalized.end(), whole.end() - static_cast<std::ptrdiff_t>(normalized.size()))) {
    refuse_call("the shape that is normalised is none of the input's last dimensions");
  }
  operand scale;
  if (weight != nullptr) {
    scale = r.in(weight);
  } else {  // Berth's row has no optional one
    scale = r.constant(1, x.type.type);
    scale.type.shape = normalized;
    scale.type.strides.assign(normalized.size(), 0);
  }
  const operand shift = bias != nullptr ? r.in(bias) : recipe::none();
  std::vector<operand> outputs{r.out(out)};
  if ((mean == nullptr) != (rstd == nullptr)) refuse_call("the simulator gives mean and rstd both or neither");
  if (mean != nullptr) outputs.push_back(r.out(mean));
  if (rstd != nullptr) outputs.push_back(r.out(rstd));
  r.row("LayerNormalization", {x, scale, shift}, outputs,
        {{"axis", -static_cast<std::int64_t>(normalized.size())}, {"epsilon", static_cast<float>(epsilon)}});
}

void gelu(recipe& r, const aclTensor* x, std::int64_t approximate, const aclTensor* y) {
  if (approximate != 0 && approximate != 1) refuse_call("approximate is 0 (erf) or 1 (tanh)");
  r.row("Gelu", {r.in(x)}, {r.out(y)}, {{"approximate", std::string{approximate == 1 ? "tanh" : "none"}}});
}

float number_of(const aclScalar* s) {
  return static_cast<float>(recipe::value(s));
}

void elu(recipe& r, const aclTensor* x, const aclScalar* alpha, const aclScalar* scale, const aclScalar* of_input,
         const aclTensor* y) {
  if (recipe::value(scale) != 1 || recipe::value(of_input) != 1) refuse_call("the simulator's scales are 1");
  r.row("Elu", {r.in(x)}, {r.out(y)}, {{"alpha", number_of(alpha)}});
}

void clamp(recipe& r, const aclTensor* given, const aclScalar* low, const aclScalar* high, const aclTensor* y) {
  const operand x = r.in(given);
  const auto bound = [&](const aclScalar* s) { return s != nullptr ? r.constant(s, x.type.type) : recipe::none(); };
  r.row("Clip", {x, bound(low), bound(high)}, {r.out(y)});
}

// If the bounds cross, the lower one applies.
void clamp_by_tensors(recipe& r, const aclTensor* given, const aclTensor* low, const aclTensor* high,
                      const aclTensor* y) {
  if (low == nullptr && high == nullptr) refuse_call("no bound");
  operand x = r.in(given);
  if (high != nullptr) {
    const operand bound = r.in(high);
    const operand below = low != nullptr ? r.between(present(y)->shape, x.type.type) : r.out(y);
    r.row("Min", {x, bound}, {below});
    x = below;
  }
  if (low == nullptr) return;
  const operand bound = r.in(low);
  r.row("Max", {x, bound}, {r.out(y)});
}

void copy(recipe& r, const aclTensor* given, const aclTensor* to) {
  const operand x = r.in(given), y = r.out(to);
  if (x.type.type == y.type.type) {
    r.row("Identity", {x}, {y});
  } else {
    r.row("Cast", {x}, {y}, {{"to", onnx_of(y.type.type)}});
  }
}

void with_number(recipe& r, const char* row, const aclTensor* a, const aclScalar* b, const aclTensor* y) {
  const operand x = r.in(a);
  r.row(row, {x, r.constant(b, x.type.type)}, {r.out(y)});
}

void add_number(recipe& r, const aclTensor* a, const aclScalar* b, const aclScalar* alpha, const aclTensor* y) {
  const operand x = r.in(a);
  r.row("Add", {x, r.constant(recipe::value(alpha) * recipe::value(b), x.type.type)}, {r.out(y)});
}

std::int64_t extent(const aclTensor* t, std::int64_t dim) {
  const dimensions& shape = present(t)->shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (dim < -rank || dim >= rank) refuse_call("no such dimension");
  return shape[static_cast<std::size_t>(dim < 0 ? dim + rank : dim)];
}

// Dimensions that the tensor lacks come before its own.
void repeat(recipe& r, const aclTensor* given, const dimensions& times, const aclTensor* y) {
  operand x = r.in(given);
  if (times.size() < x.type.shape.size()) refuse_call("fewer repeats than dimensions");
  const std::size_t missing = times.size() - x.type.shape.size();
  x.type.shape.insert(x.type.shape.begin(), missing, 1);
  x.type.strides.insert(x.type.strides.begin(), missing, 0);
  r.row("Tile", {x, recipe::list(times)}, {r.out(y)});
}

void concatenate(recipe& r, const aclTensorList* tensors, std::int64_t dim, const aclTensor* y) {
  if (tensors == nullptr) throw refused{refuse(ACLNN_ERR_PARAM_NULLPTR, "null list")};
  std::vector<operand> parts;
  for (const aclTensor* t : tensors->tensors) parts.push_back(r.in(t));
  r.row("Concat", parts, {r.out(y)}, {{"axis", dim}});
}

// The innermost dimension's two numbers come first; outer dimensions may be left out.
void pad(recipe& r, const aclTensor* given, const aclIntArray* by, const aclScalar* value, const aclTensor* y) {
  const operand x = r.in(given);
  const dimensions& both = values_of(by);
  const std::size_t rank = x.type.shape.size();
  if (both.size() % 2 != 0 || both.size() > 2 * rank) refuse_call("pad has not two entries a dimension");
  dimensions pads(2 * rank, 0);
  for (std::size_t i = 0; i < both.size(); ++i) pads[rank - 1 - i / 2 + i % 2 * rank] = both[i];
  r.row("Pad", {x, recipe::list(pads), r.constant(value, x.type.type)}, {r.out(y)});
}

// Replaces -1 by the input's dimension.
dimensions expanded(const aclTensor* self, const aclIntArray* size) {
  dimensions to = values_of(size);
  const dimensions& from = present(self)->shape;
  for (std::size_t i = 1; i <= to.size() && i <= from.size(); ++i) {
    if (to[to.size() - i] == -1) to[to.size() - i] = from[from.size() - i];
  }
  return to;
}

}  // namespace

extern "C" {

#define ONE(name, row_name) OPERATOR(name, (r.row(row_name, {r.in(x)}, {r.out(y)})), in x, out y)
#define TWO(name, row_name) OPERATOR(name, (r.row(row_name, {r.in(a), r.in(b)}, {r.out(y)})), in a, in b, out y)

ONE(Abs, "Abs")
ONE(Acos, "Acos")
OPERATOR(Acosh, (r.row("Acosh", {r.in(x)}, {r.out(y)})), in x, in y)
ONE(Asin, "Asin")
ONE(Asinh, "Asinh")
ONE(Atan, "Atan")
ONE(Atanh, "Atanh")
ONE(Ceil, "Ceil")
ONE(Cos, "Cos")
ONE(Cosh, "Cosh")
ONE(Erf, "Erf")
ONE(Exp, "Exp")
ONE(Floor, "Floor")
OPERATOR(Hardsigmoid, (r.row("HardSigmoid", {r.in(x)}, {r.out(y)}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}})), in x, out y)
OPERATOR(Hardswish, (r.row("HardSwish", {r.in(x)}, {r.out(y)})), in x, in y)
ONE(Log, "Log")
ONE(LogicalNot, "Not")
ONE(Mish, "Mish")
ONE(Neg, "Neg")
ONE(Reciprocal, "Reciprocal")
OPERATOR(Relu, (r.row("Relu", {r.in(x)}, {r.out(y)})), in x, in y)
ONE(Round, "Round")
ONE(Selu, "Selu")
ONE(Sigmoid, "Sigmoid")
ONE(Sign, "Sign")
ONE(Sin, "Sin")
ONE(Sinh, "Sinh")
ONE(Sqrt, "Sqrt")
ONE(Tan, "Tan")
ONE(Tanh, "Tanh")
OPERATOR(GeluV2, (gelu(r, x, approximate, y)), in x, std::int64_t approximate, out y)
OPERATOR(LeakyRelu, (r.row("LeakyRelu", {r.in(x)}, {r.out(y)}, {{"alpha", number_of(slope)}})), in x, scalar slope,
         out y)
OPERATOR(Celu, (r.row("Celu", {r.in(x)}, {r.out(y)}, {{"alpha", number_of(alpha)}})), in x, scalar alpha, out y)
OPERATOR(Elu, (elu(r, x, alpha, scale, of_input, y)), in x, scalar alpha, scalar scale, scalar of_input, out y)
OPERATOR(Clamp, (clamp(r, x, low, high, y)), in x, scalar low, scalar high, out y)
OPERATOR(ClampTensor, (clamp_by_tensors(r, x, low, high, y)), in x, in low, in high, out y)
OPERATOR(Cast, (require_type(type, y), copy(r, x, y)), in x, const aclDataType type, out y)
OPERATOR(InplaceCopy, (copy(r, x, y)), out y, in x)

OPERATOR(Add, (add(r, "Add", a, b, alpha, y)), in a, in b, scalar alpha, out y)
OPERATOR(Adds, (add_number(r, a, b, alpha, y)), in a, scalar b, scalar alpha, out y)
OPERATOR(InplaceAdd, (add(r, "Add", a, b, alpha, a)), in a, in b, scalar alpha)
OPERATOR(InplaceAdds, (add_number(r, a, b, alpha, a)), in a, scalar b, scalar alpha)
OPERATOR(Sub, (add(r, "Sub", a, b, alpha, y)), in a, in b, scalar alpha, out y)
TWO(Mul, "Mul")
OPERATOR(Muls, (with_number(r, "Mul", a, b, y)), in a, scalar b, out y)
OPERATOR(Div, (require_real(a), r.row("Div", {r.in(a), r.in(b)}, {r.out(y)})), in a, in b, out y)
OPERATOR(Divs, (require_real(a), with_number(r, "Div", a, b, y)), in a, scalar b, out y)
TWO(PowTensorTensor, "Pow")
OPERATOR(PowTensorScalar, (with_number(r, "Pow", a, b, y)), in a, scalar b, in y)
TWO(Maximum, "Max")
TWO(Minimum, "Min")
TWO(EqTensor, "Equal")
TWO(LtTensor, "Less")
TWO(LeTensor, "LessOrEqual")
TWO(GtTensor, "Greater")
TWO(GeTensor, "GreaterOrEqual")
TWO(LogicalAnd, "And")
TWO(LogicalOr, "Or")
TWO(LogicalXor, "Xor")
TWO(BitwiseAndTensor, "BitwiseAnd")
TWO(BitwiseOrTensor, "BitwiseOr")
TWO(BitwiseXorTensor, "BitwiseXor")
OPERATOR(SWhere, (r.row("Where", {r.in(c), r.in(a), r.in(b)}, {r.out(y)})), in c, in a, in b, out y)

OPERATOR(Matmul, (require_cube(a, cube), r.row("MatMul", {r.in(a), r.in(b)}, {r.out(y)})), in a, in b, out y,
         std::int8_t cube)
OPERATOR(BatchMatMul,
         (require_cube(a, cube), require_rank(a, 3), require_rank(b, 3),
          r.row("MatMul", {r.in(a), r.in(b)}, {r.out(y)})),
         in a, in b, out y, std::int8_t cube)
OPERATOR(Mm,
         (require_cube(a, cube), require_rank(a, 2), require_rank(b, 2),
          r.row("MatMul", {r.in(a), r.in(b)}, {r.out(y)})),
         in a, in b, out y, std::int8_t cube)
OPERATOR(Gemm,
         (require_cube(a, cube), r.row("Gemm", {r.in(a), r.in(b), r.in(c)}, {r.out(y)},
                                       {{"alpha", alpha}, {"beta", beta}, {"transA", turn_a}, {"transB", turn_b}})),
         in a, in b, in c, float alpha, float beta, std::int64_t turn_a, std::int64_t turn_b, out y, std::int8_t cube)

OPERATOR(Addmm,
         (require_cube(a, cube), r.row("Gemm", {r.in(a), r.in(b), r.in(c)}, {r.out(y)},
                                       {{"alpha", number_of(alpha)}, {"beta", number_of(beta)}})),
         in c, in a, in b, scalar beta, scalar alpha, out y, std::int8_t cube)
OPERATOR(Softmax, (r.by_copy(), r.row("Softmax", {r.in(x)}, {r.out(y)}, {{"axis", dim}})), in x, std::int64_t dim,
         out y)
OPERATOR(LogSoftmax, (r.by_copy(), r.row("LogSoftmax", {r.in(x)}, {r.out(y)}, {{"axis", dim}})), in x, std::int64_t dim,
         out y)
OPERATOR(ReduceSum, (require_type(type, y), reduce(r, "ReduceSum", x, dims, keep, y)), in x, list dims, bool keep,
         aclDataType type, out y)
OPERATOR(Mean, (require_type(type, y), reduce(r, "ReduceMean", x, dims, keep, y)), in x, list dims, bool keep,
         aclDataType type, out y)
OPERATOR(Amax, (reduce(r, "ReduceMax", x, dims, keep, y)), in x, list dims, bool keep, out y)
OPERATOR(Amin, (reduce(r, "ReduceMin", x, dims, keep, y)), in x, list dims, bool keep, out y)
OPERATOR(ArgMax, (r.row("ArgMax", {r.in(x)}, {r.out(y)}, {{"axis", dim}, {"keepdims", std::int64_t{keep}}})), in x,
         std::int64_t dim, bool keep, out y)
OPERATOR(ArgMin, (r.row("ArgMin", {r.in(x)}, {r.out(y)}, {{"axis", dim}, {"keepdims", std::int64_t{keep}}})), in x,
         std::int64_t dim, bool keep, out y)
OPERATOR(Cumsum, (require_type(type, y), r.by_copy(), r.row("CumSum", {r.in(x), recipe::number(dim)}, {r.out(y)})),
         in x, std::int64_t dim, aclDataType type, out y)
OPERATOR(Sort, (largest(r, x, extent(x, dim), dim, down, true, y, i)), in x, bool, std::int64_t dim, bool down, out y,
         out i)
OPERATOR(Topk, (largest(r, x, k, dim, most, sorted, y, i)), in x, std::int64_t k, std::int64_t dim, bool most,
         bool sorted, out y, out i)
OPERATOR(LayerNorm, (layer_norm(r, x, shape, weight, bias, epsilon, y, mean, rstd)), in x, list shape, in weight,
         in bias, double epsilon, out y, out mean, out rstd)
OPERATOR(RmsNorm, (rms_norm(r, x, gamma, epsilon, y, rstd)), in x, in gamma, double epsilon, in y, in rstd)

OPERATOR(Permute, (r.row("Transpose", {r.in(x)}, {r.out(y)}, {{"perm", values_of(dims)}})), in x, list dims, out y)
OPERATOR(Expand, (r.row("Expand", {r.in(x), recipe::list(expanded(x, size))}, {r.out(y)})), in x, list size, out y)
OPERATOR(Repeat, (repeat(r, x, values_of(repeats), y)), in x, list repeats, out y)
OPERATOR(Cat, (concatenate(r, tensors, dim, y)), const aclTensorList* tensors, std::int64_t dim, out y)
OPERATOR(SliceV2,
         (r.row("Slice",
                {r.in(x), recipe::list(values_of(starts)), recipe::list(values_of(ends)), recipe::list(values_of(axes)),
                 recipe::list(values_of(steps))},
                {r.out(y)})),
         in x, list starts, list ends, list axes, list steps, out y)
OPERATOR(ConstantPadNd, (pad(r, x, by, value, y)), in x, list by, scalar value, out y)
OPERATOR(GatherV2, (r.row("Gather", {r.in(x), r.in(index)}, {r.out(y)}, {{"axis", dim}})), in x, std::int64_t dim,
         in index, out y)
OPERATOR(Gather, (r.row("GatherElements", {r.in(x), r.in(index)}, {r.out(y)}, {{"axis", dim}})), in x,
         const std::int64_t dim, in index, out y)
OPERATOR(Tril, (r.row("Trilu", {r.in(x), recipe::number(k)}, {r.out(y)}, {{"upper", std::int64_t{0}}})), in x,
         std::int64_t k, out y)
OPERATOR(Triu, (r.row("Trilu", {r.in(x), recipe::number(k)}, {r.out(y)}, {{"upper", std::int64_t{1}}})), in x,
         std::int64_t k, out y)

}  // extern "C"
