// Functions of one operand.
#include <algorithm>
#include <functional>

#include "op/operators/rows.hpp"
#include "op/plain/map.hpp"

namespace berth::op {

namespace {

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
  std::vector<double> p;
  if constexpr (requires { F::numbers(q); }) p = F::numbers(q);
  return map(q, outputs, {Functions, p, domain_of(input(q, 0).type)});
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
  constexpr auto by_erf = []<class C>(C x) { return x * C(0.5) * (1 + std::erf(x * C(0.70710678118654752440))); };
  constexpr auto by_tanh = []<class C>(C x) {
    return x * C(0.5) * (1 + std::tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x)));
  };
  return how == "tanh" ? one<on_reals<decltype(by_tanh), 1>, decltype(by_tanh)>(q, outputs)
                       : one<on_reals<decltype(by_erf), 1>, decltype(by_erf)>(q, outputs);
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
  return one<on_all<std::identity, 1>, std::identity>(of_one, outputs);
}

// Returns the row of a function of floats, or of any elements.
template <class F>
constexpr definition of_reals(const char* name, F, infer_function infer = like_first_real) {
  return {name, 1, 0, true, infer, one<on_reals<F, 1>, F>, "64x1024"};
}
template <class F>
constexpr definition of_all(const char* name, F, infer_function infer = like_first_number) {
  return {name, 1, 0, true, infer, one<on_all<F, 1>, F>, "64x1024"};
}

constexpr definition elementwise_table[] = {
    of_all("Abs", [](auto x) { return absolute(x); }),
    of_reals("Acos", [](auto x) { return std::acos(x); }),
    of_reals("Acosh", [](auto x) { return std::acosh(x); }),
    of_reals("Asin", [](auto x) { return std::asin(x); }),
    of_reals("Asinh", [](auto x) { return std::asinh(x); }),
    of_reals("Atan", [](auto x) { return std::atan(x); }),
    of_reals("Atanh", [](auto x) { return std::atanh(x); }),
    {"Cast", 1, 0, true, cast_type, cast, "64x1024"},
    {"CastLike", 2, 2, true, cast_like_type, cast, "64x1024,1"},
    of_reals("Ceil", [](auto x) { return std::ceil(x); }),
    of_reals("Celu", celu_of{}),
    of_reals("Cos", [](auto x) { return std::cos(x); }),
    of_reals("Cosh", [](auto x) { return std::cosh(x); }),
    of_reals("Elu", elu_of{}),
    of_reals("Erf", [](auto x) { return std::erf(x); }),
    of_reals("Exp", [](auto x) { return std::exp(x); }),
    of_reals("Floor", [](auto x) { return std::floor(x); }),
    {"Gelu", 1, 0, true, like_first_real, gelu, "64x1024"},
    of_reals("HardSigmoid", hard_sigmoid_of{}),
    of_reals("HardSwish", []<class C>(C x) { return x * std::fmin(std::fmax(x / 6 + C(0.5), C(0)), C(1)); }),
    of_all("Identity", std::identity{}, like_first),
    of_reals("IsInf", infinite_of{}, truth_of_real),
    of_reals(
        "IsNaN", [](auto x) { return x != x; }, truth_of_real),
    of_reals("LeakyRelu", leaky_relu_of{}),
    of_reals("Log", [](auto x) { return std::log(x); }),
    of_reals("Mish", [](auto x) { return x * std::tanh(std::log1p(std::exp(x))); }),
    of_all("Neg", []<class C>(C x) { return difference(C{0}, x); }),
    of_all(
        "Not", [](auto x) { return x == 0; }, truth_of_truth),
    of_reals("Reciprocal", [](auto x) { return 1 / x; }),
    of_all("Relu", []<class C>(C x) { return x > 0 || x != x ? x : C{0}; }),
    of_reals("Round", [](auto x) { return std::nearbyint(x); }),  // to even, the rounding that programs start with
    of_reals("Selu", selu_of{}),
    of_all("Shrink", shrink_of{}),
    of_reals("Sigmoid", [](auto x) { return 1 / (1 + std::exp(-x)); }),
    of_all("Sign", []<class C>(C x) { return x != x ? x : static_cast<C>((x > 0) - (x < 0)); }),
    of_reals("Sin", [](auto x) { return std::sin(x); }),
    of_reals("Sinh", [](auto x) { return std::sinh(x); }),
    of_reals("Softplus", [](auto x) { return x > 20 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }),
    of_reals("Softsign", [](auto x) { return x / (1 + std::abs(x)); }),
    of_reals("Sqrt", [](auto x) { return std::sqrt(x); }),
    of_reals("Swish", swish_of{}),
    of_reals("Tan", [](auto x) { return std::tan(x); }),
    of_reals("Tanh", [](auto x) { return std::tanh(x); }),
    of_reals("ThresholdedRelu", thresholded_relu_of{}),
};

}  // namespace

const rows elementwise_rows{elementwise_table};

}  // namespace berth::op
