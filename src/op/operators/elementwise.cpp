// Functions of one operand.
#include <algorithm>

#include "op/operators/rows.hpp"
#include "op/plain/map.hpp"

namespace berth::op {

namespace {

// The operator's numbers, for functions that have none.
struct no_numbers {
  static std::vector<double> numbers(const request&) { return {}; }
};
// Up to two float attributes with their defaults.
template <class Self>
struct attribute_numbers {
  static std::vector<double> numbers(const request& q) {
    std::vector<double> p;
    for (const auto& [name, fallback] : Self::names) p.push_back(attribute_or(q, name, fallback));
    return p;
  }
};
struct named {
  const char* name;
  float fallback;
};

// Shrinks towards 0 by the bias. The sum of an integer and a fraction is cut, not the fraction.
template <class C>
C shrunk(C x, double bias, double limit) {
  const auto wide = static_cast<double>(x);
  if (!(wide < -limit) && !(wide > limit)) return 0;
  if constexpr (std::is_integral_v<C>) {
    if (bias != std::trunc(bias)) return from_real<C>(wide < -limit ? wide + bias : wide - bias);
  }
  return wide < -limit ? sum(x, from_real<C>(bias)) : difference(x, from_real<C>(bias));
}

#define BERTH_UNARY(NAME, EXPRESSION)                           \
  struct NAME##_of : no_numbers {                               \
    template <class C>                                          \
    C operator()([[maybe_unused]] const double* p, C x) const { \
      return static_cast<C>(EXPRESSION);                        \
    }                                                           \
  }
#define BERTH_UNARY_WITH(NAME, EXPRESSION, ...)                                          \
  struct NAME##_of : attribute_numbers<NAME##_of> {                                      \
    static constexpr named names[] = {__VA_ARGS__};                                      \
    template <class C>                                                                   \
    C operator()(const double* p, C x) const {                                           \
      [[maybe_unused]] const auto a = from_real<C>(p[0]);                                \
      [[maybe_unused]] const auto b = from_real<C>(p[sizeof names / sizeof(named) - 1]); \
      return static_cast<C>(EXPRESSION);                                                 \
    }                                                                                    \
  }

template <class C>
C absolute(C x) {
  if constexpr (std::is_unsigned_v<C>)
    return x;
  else if constexpr (std::is_integral_v<C>)
    return x < 0 ? difference(C{0}, x) : x;
  else
    return std::abs(x);
}

BERTH_UNARY(identity, x);
BERTH_UNARY(abs, absolute(x));
BERTH_UNARY(neg, difference(C{0}, x));
BERTH_UNARY(sign, x > 0 ? 1 : x == 0 ? 0 : x < 0 ? -1 : x);
BERTH_UNARY(relu, x > 0 ? x : x != x ? x : 0);
BERTH_UNARY(acos, std::acos(x));
BERTH_UNARY(acosh, std::acosh(x));
BERTH_UNARY(asin, std::asin(x));
BERTH_UNARY(asinh, std::asinh(x));
BERTH_UNARY(atan, std::atan(x));
BERTH_UNARY(atanh, std::atanh(x));
BERTH_UNARY(ceil, std::ceil(x));
BERTH_UNARY(cos, std::cos(x));
BERTH_UNARY(cosh, std::cosh(x));
BERTH_UNARY(erf, std::erf(x));
BERTH_UNARY(exp, std::exp(x));
BERTH_UNARY(floor, std::floor(x));
BERTH_UNARY(log, std::log(x));
BERTH_UNARY(reciprocal, 1 / x);
BERTH_UNARY(round, std::nearbyint(x));  // to even, the rounding that programs start with
BERTH_UNARY(sigmoid, 1 / (1 + std::exp(-x)));
BERTH_UNARY(sin, std::sin(x));
BERTH_UNARY(sinh, std::sinh(x));
BERTH_UNARY(softplus, x > 20 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
BERTH_UNARY(softsign, x / (1 + std::abs(x)));
BERTH_UNARY(sqrt, std::sqrt(x));
BERTH_UNARY(tan, std::tan(x));
BERTH_UNARY(tanh, std::tanh(x));
BERTH_UNARY(hard_swish, x* std::fmin(std::fmax(x / 6 + C(0.5), C(0)), C(1)));
BERTH_UNARY(mish, x* std::tanh(std::log1p(std::exp(x))));
BERTH_UNARY(gelu_erf, x* C(0.5) * (1 + std::erf(x * C(0.70710678118654752440))));
BERTH_UNARY(gelu_tanh, x* C(0.5) * (1 + std::tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x))));
BERTH_UNARY(not_a_number, x != x);
BERTH_UNARY(logical_not, x == 0);

BERTH_UNARY_WITH(celu, x > 0 ? x : a * std::expm1(x / a), {"alpha", 1});
BERTH_UNARY_WITH(elu, x > 0 ? x : a * std::expm1(x), {"alpha", 1});
BERTH_UNARY_WITH(hard_sigmoid, std::clamp(a* x + b, C(0), C(1)), {"alpha", 0.2f}, {"beta", 0.5f});
BERTH_UNARY_WITH(leaky_relu, x >= 0 ? x : a * x, {"alpha", 0.01f});
BERTH_UNARY_WITH(selu, b*(x > 0 ? x : a * std::expm1(x)), {"alpha", 1.67326319217681884765625f},
                 {"gamma", 1.05070102214813232421875f});
BERTH_UNARY_WITH(swish, x / (1 + std::exp(-a * x)), {"alpha", 1});
BERTH_UNARY_WITH(thresholded_relu, x > a ? x : 0, {"alpha", 1});
BERTH_UNARY_WITH(shrink, shrunk(x, p[0], p[1]), {"bias", 0.0f}, {"lambd", 0.5f});

struct infinite_of {
  static std::vector<double> numbers(const request& q) {
    return {static_cast<double>(attribute_or<std::int64_t>(q, "detect_positive", 1)),
            static_cast<double>(attribute_or<std::int64_t>(q, "detect_negative", 1))};
  }
  template <class C>
  C operator()(const double* p, C x) const {
    return std::isinf(x) && (x > 0 ? p[0] : p[1]) != 0;
  }
};

template <const row_functions& Functions, class F>
made one(const request& q, const types& outputs) {
  return map(q, outputs, {Functions, F::numbers(q), domain_of(input(q, 0).type)});
}

types like_first_real(const request& q) {
  (void)require_real(q, 0);
  return like_first(q);
}
types like_first_number(const request& q) {
  (void)require_number(q, 0);
  return like_first(q);
}
types truth_of_real(const request& q) {
  (void)require_real(q, 0);
  return {dense(element::boolean, shape_of(q, 0))};
}
types truth_of_truth(const request& q) {
  if (input(q, 0).type != element::boolean) refuse("input 0 is not bool");
  return like_first(q);
}

made gelu(const request& q, const types& outputs) {
  const auto how = choice(q, "approximate", "none", {"none", "tanh"});
  return how == "tanh" ? one<on_reals<gelu_tanh_of, 1>, gelu_tanh_of>(q, outputs)
                       : one<on_reals<gelu_erf_of, 1>, gelu_erf_of>(q, outputs);
}

types cast_type(const request& q) {
  if (input(q, 0).type == element::other) refuse("input 0 is of a type that is not supported");
  return {dense(asked_type(q, "to"), shape_of(q, 0))};
}
types cast_like_type(const request& q) {
  if (input(q, 1).type == element::other) refuse("input 1 is of a type that is not supported");
  return {dense(input(q, 1).type, shape_of(q, 0))};
}
// CastLike's second input is no operand of the kernel; only its type counts.
made cast(const request& q, const types& outputs) {
  request of_one = q;
  of_one.inputs.resize(1);
  if (operands_of(q).size() != 1) refuse("internal: an operand too many");
  return one<on_all<identity_of, 1>, identity_of>(of_one, outputs);
}

#define BERTH_REAL(NAME, F) \
  { NAME, 1, 0, true, like_first_real, one<on_reals<F##_of, 1>, F##_of>, "64x1024" }
#define BERTH_NUMBER(NAME, F) \
  { NAME, 1, 0, true, like_first_number, one<on_all<F##_of, 1>, F##_of>, "64x1024" }

constexpr definition elementwise_table[] = {
    BERTH_NUMBER("Abs", abs),
    BERTH_REAL("Acos", acos),
    BERTH_REAL("Acosh", acosh),
    BERTH_REAL("Asin", asin),
    BERTH_REAL("Asinh", asinh),
    BERTH_REAL("Atan", atan),
    BERTH_REAL("Atanh", atanh),
    {"Cast", 1, 0, true, cast_type, cast, "64x1024"},
    {"CastLike", 2, 2, true, cast_like_type, cast, "64x1024,1"},
    BERTH_REAL("Ceil", ceil),
    BERTH_REAL("Celu", celu),
    BERTH_REAL("Cos", cos),
    BERTH_REAL("Cosh", cosh),
    BERTH_REAL("Elu", elu),
    BERTH_REAL("Erf", erf),
    BERTH_REAL("Exp", exp),
    BERTH_REAL("Floor", floor),
    {"Gelu", 1, 0, true, like_first_real, gelu, "64x1024"},
    BERTH_REAL("HardSigmoid", hard_sigmoid),
    BERTH_REAL("HardSwish", hard_swish),
    {"Identity", 1, 0, true, like_first, one<on_all<identity_of, 1>, identity_of>, "64x1024"},
    {"IsInf", 1, 0, true, truth_of_real, one<on_reals<infinite_of, 1>, infinite_of>, "64x1024"},
    {"IsNaN", 1, 0, true, truth_of_real, one<on_reals<not_a_number_of, 1>, not_a_number_of>, "64x1024"},
    BERTH_REAL("LeakyRelu", leaky_relu),
    BERTH_REAL("Log", log),
    BERTH_REAL("Mish", mish),
    BERTH_NUMBER("Neg", neg),
    {"Not", 1, 0, true, truth_of_truth, one<on_integers<logical_not_of, 1>, logical_not_of>, "64x1024"},
    BERTH_REAL("Reciprocal", reciprocal),
    BERTH_NUMBER("Relu", relu),
    BERTH_REAL("Round", round),
    BERTH_REAL("Selu", selu),
    BERTH_NUMBER("Shrink", shrink),
    BERTH_REAL("Sigmoid", sigmoid),
    BERTH_NUMBER("Sign", sign),
    BERTH_REAL("Sin", sin),
    BERTH_REAL("Sinh", sinh),
    BERTH_REAL("Softplus", softplus),
    BERTH_REAL("Softsign", softsign),
    BERTH_REAL("Sqrt", sqrt),
    BERTH_REAL("Swish", swish),
    BERTH_REAL("Tan", tan),
    BERTH_REAL("Tanh", tanh),
    BERTH_REAL("ThresholdedRelu", thresholded_relu),
};

}  // namespace

extern const rows elementwise_rows;
const rows elementwise_rows{elementwise_table};

}  // namespace berth::op
