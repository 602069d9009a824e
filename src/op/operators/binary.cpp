// Functions of several operands, broadcast against one another.
#include <algorithm>

#include "op/operators/rows.hpp"
#include "op/plain/map.hpp"

namespace berth::op {

namespace {

template <class C>
C integer_power(C base, C exponent) {
  if constexpr (std::is_signed_v<C>) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  C result = 1;
  for (; exponent != 0; exponent = static_cast<C>(exponent / 2), base = times(base, base)) {
    if (exponent % 2 != 0) result = times(result, base);
  }
  return result;
}
template <class C>
C power(C base, C exponent) {
  if constexpr (std::is_integral_v<C>)
    return integer_power(base, exponent);
  else
    return std::pow(base, exponent);
}

// Returns the remainder with the divisor's sign; with the dividend's if p[0].
template <class C>
C remainder_of(const double* p, C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    const C r = std::fmod(a, b);
    return p[0] == 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<C>) {
      if (b == -1) return 0;
      const C r = a % b;
      return p[0] == 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
      return a % b;
    }
  }
}

constexpr auto added = [](auto a, auto b) { return sum(a, b); };
constexpr auto larger = [](auto a, auto b) { return a != a || a > b ? a : b; };
constexpr auto smaller = [](auto a, auto b) { return a != a || a < b ? a : b; };
constexpr auto held_between = [](auto x, auto low, auto high) { return smaller(larger(x, low), high); };
constexpr auto chosen_one = [](auto condition, auto a, auto b) { return condition != 0 ? a : b; };
constexpr auto shifted_left = [](auto a, auto b) {
  return static_cast<std::uint64_t>(b) > 63 ? 0 : static_cast<std::uint64_t>(a) << b;
};
constexpr auto shifted_right = [](auto a, auto b) {
  return static_cast<std::uint64_t>(b) > 63 ? 0 : static_cast<std::uint64_t>(a) >> b;
};

template <const row_functions& Functions>
made two(const request& q, const types& outputs) {
  return map(q, outputs, {Functions, {}, domain_of(input(q, 0).type)});
}
template <class F>
constexpr auto of_two = two<on_all<F, 2>>;

types numbers_like_all(const request& q) {
  (void)require_number(q, 0);
  (void)input(q, 1);
  return like_all(q);
}
types truth_of_two(const request& q) {
  (void)input(q, 1);
  return truth_of_all(q);
}
types truth_of_truths(const request& q) {
  if (input(q, 0).type != element::boolean) refuse("input 0 is not bool");
  return truth_of_two(q);
}
types integers_like_all(const request& q) {
  if (!is_integer(input(q, 0).type)) refuse("input 0 is not of integers");
  return numbers_like_all(q);
}

made add(const request& q, const types& outputs) {
  const float alpha = attribute_or(q, "alpha", 1.0f);  // aclnnAdd's: a + alpha b
  if (alpha == 1) return of_two<decltype(added)>(q, outputs);
  constexpr auto scaled = []<class C>(const double* p, C a, C b) { return sum(a, times(from_real<C>(p[0]), b)); };
  return map(q, outputs, {on_all<decltype(scaled), 2>, {alpha}, domain_of(input(q, 0).type)});
}

types power_type(const request& q) {
  (void)require_number(q, 0);
  (void)require_number(q, 1);
  return {dense(input(q, 0).type, broadcast(shape_of(q, 0), shape_of(q, 1)))};
}
made raise(const request& q, const types& outputs) {
  const element a = input(q, 0).type;
  const bool mixed = !is_real(a) && is_real(input(q, 1).type);
  constexpr auto raised = [](auto base, auto exponent) { return power(base, exponent); };
  return map(q, outputs, {on_all<decltype(raised), 2>, {}, mixed ? domain::f64 : domain_of(a)});
}

made modulo(const request& q, const types& outputs) {
  const auto truncates = attribute_or<std::int64_t>(q, "fmod", 0);
  constexpr auto rest = []<class C>(const double* p, C a, C b) { return remainder_of(p, a, b); };
  return map(q, outputs, {on_all<decltype(rest), 2>, {static_cast<double>(truncates)}, domain_of(input(q, 0).type)});
}

made shift(const request& q, const types& outputs) {
  return choice(q, "direction", "", {"LEFT", "RIGHT"}) == "LEFT"
             ? two<on_integers<decltype(shifted_left), 2>>(q, outputs)
             : two<on_integers<decltype(shifted_right), 2>>(q, outputs);
}

template <class F>
made successive(const request& q, const types& outputs) {
  map_plan plan{on_all<F, 2>, {}, domain_of(input(q, 0).type)};
  plan.successive = true;
  return map(q, outputs, plan);
}
made mean_of_all(const request& q, const types& outputs) {
  map_plan plan{on_all<decltype(added), 2>, {static_cast<double>(q.inputs.size())}, domain_of(input(q, 0).type)};
  constexpr auto over_count = []<class C>(const double* p, C x) { return x / static_cast<C>(p[0]); };
  plan.successive = true;
  plan.last = on_all<decltype(over_count), 1>;
  return map(q, outputs, plan);
}
types like_any_number(const request& q) {
  (void)require_number(q, 0);
  for (std::size_t i = 0; i < q.inputs.size(); ++i) (void)input(q, i);
  return like_all(q);
}

types clip_type(const request& q) {
  (void)require_number(q, 0);
  require_same_types(q);
  for (std::size_t i = 1; i <= 2; ++i) {
    if (!has(q, i)) continue;
    if (count_of(shape_of(q, i)) != 1) refuse("input " + std::to_string(i) + " is not one number");
    if (shape_of(q, i).size() > shape_of(q, 0).size()) {
      refuse("input " + std::to_string(i) + " has more dimensions than what it limits");
    }
  }
  return like_first(q);
}
made clip(const request& q, const types& outputs) {
  const domain in = domain_of(input(q, 0).type);
  if (has(q, 1) && has(q, 2)) return map(q, outputs, {on_all<decltype(held_between), 3>, {}, in});
  if (has(q, 1)) return map(q, outputs, {on_all<decltype(larger), 2>, {}, in});
  if (has(q, 2)) return map(q, outputs, {on_all<decltype(smaller), 2>, {}, in});
  const double low = attribute_or(q, "min", -INFINITY), high = attribute_or(q, "max", INFINITY);
  if (low == -INFINITY && high == INFINITY && !is_real(outputs[0].type)) {  // no limits, which integers may have
    return copies(q, outputs, {{0, 0, 0, 0, shape_of(q, 0), strides_of(input(q, 0)), strides_of(outputs[0])}});
  }
  constexpr auto clipped = []<class C>(const double* p, C x) {
    return held_between(x, static_cast<C>(p[0]), static_cast<C>(p[1]));
  };
  return map(q, outputs, {on_reals<decltype(clipped), 1>, {low, high}, in});
}

types where_type(const request& q) {
  if (input(q, 0).type != element::boolean) refuse("input 0, the condition, is not bool");
  if (input(q, 1).type != input(q, 2).type) refuse("inputs 1 and 2 are of different types");
  const shape both = broadcast(shape_of(q, 1), shape_of(q, 2));
  return {dense(input(q, 1).type, broadcast(shape_of(q, 0), both))};
}
made choose(const request& q, const types& outputs) {
  return map(q, outputs, {on_all<decltype(chosen_one), 3>, {}, domain_of(input(q, 1).type)});
}

types prelu_type(const request& q) {
  const types t = numbers_like_all(q);
  if (t[0].shape != shape_of(q, 0)) refuse("the slope does not broadcast to the input");
  return t;
}

constexpr const char* two_shapes = "64x1024,64x1024";
// Returns the row of a function of two operands; of integers and truths.
template <class F>
constexpr definition of_pair(const char* name, infer_function infer, F) {
  return {name, 2, 0, true, infer, of_two<F>, two_shapes};
}
template <class F>
constexpr definition of_bits(const char* name, infer_function infer, F) {
  return {name, 2, 0, true, infer, two<on_integers<F, 2>>, two_shapes};
}

constexpr definition binary_table[] = {
    {"Add", 2, 0, true, numbers_like_all, add, two_shapes},
    of_bits("And", truth_of_truths, [](auto a, auto b) { return a != 0 && b != 0; }),
    {"BitShift", 2, 0, true, integers_like_all, shift, two_shapes},
    of_bits("BitwiseAnd", integers_like_all, [](auto a, auto b) { return a & b; }),
    of_bits("BitwiseOr", integers_like_all, [](auto a, auto b) { return a | b; }),
    of_bits("BitwiseXor", integers_like_all, [](auto a, auto b) { return a ^ b; }),
    {"Clip", 3, 0, true, clip_type, clip, "64x1024,scalar,scalar"},
    of_pair("Div", numbers_like_all, [](auto a, auto b) { return quotient(a, b); }),
    of_pair("Equal", truth_of_two, [](auto a, auto b) { return a == b; }),
    of_pair("Greater", truth_of_two, [](auto a, auto b) { return a > b; }),
    of_pair("GreaterOrEqual", truth_of_two, [](auto a, auto b) { return a >= b; }),
    of_pair("Less", truth_of_two, [](auto a, auto b) { return a < b; }),
    of_pair("LessOrEqual", truth_of_two, [](auto a, auto b) { return a <= b; }),
    {"Max", any_number, 0, true, like_any_number, successive<decltype(larger)>, two_shapes},
    {"Mean", any_number, 0, true, like_any_number, mean_of_all, two_shapes},
    {"Min", any_number, 0, true, like_any_number, successive<decltype(smaller)>, two_shapes},
    {"Mod", 2, 0, true, numbers_like_all, modulo, two_shapes},
    of_pair("Mul", numbers_like_all, [](auto a, auto b) { return times(a, b); }),
    of_bits("Or", truth_of_truths, [](auto a, auto b) { return a != 0 || b != 0; }),
    of_pair("PRelu", prelu_type, [](auto a, auto b) { return a >= 0 ? a : times(a, b); }),
    {"Pow", 2, 0, true, power_type, raise, two_shapes},
    of_pair("Sub", numbers_like_all, [](auto a, auto b) { return difference(a, b); }),
    {"Sum", any_number, 0, true, like_any_number, successive<decltype(added)>, two_shapes},
    {"Where", 3, 0, true, where_type, choose, "64x1024,64x1024,64x1024"},
    of_bits("Xor", truth_of_truths, [](auto a, auto b) { return (a != 0) != (b != 0); }),
};

}  // namespace

const rows binary_rows{binary_table};

}  // namespace berth::op
