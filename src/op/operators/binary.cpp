// Functions of several operands, broadcast against one another.
#include <algorithm>

#include "op/operators/rows.hpp"
#include "op/plain/map.hpp"

namespace berth::op {

namespace {

#define BERTH_BINARY(NAME, EXPRESSION)                               \
  struct NAME##_of {                                                 \
    template <class C>                                               \
    C operator()([[maybe_unused]] const double* p, C a, C b) const { \
      return static_cast<C>(EXPRESSION);                             \
    }                                                                \
  }

template <class C>
constexpr bool is_nan(C x) {
  return x != x;
}

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

BERTH_BINARY(add, sum(a, b));
BERTH_BINARY(add_scaled, sum(a, times(from_real<C>(p[0]), b)));
BERTH_BINARY(subtract, difference(a, b));
BERTH_BINARY(multiply, times(a, b));
BERTH_BINARY(divide, quotient(a, b));
BERTH_BINARY(power, power(a, b));
BERTH_BINARY(modulo, remainder_of(p, a, b));
BERTH_BINARY(maximum, is_nan(a) || a > b ? a : b);
BERTH_BINARY(minimum, is_nan(a) || a < b ? a : b);
BERTH_BINARY(logical_and, a != 0 && b != 0);
BERTH_BINARY(logical_or, a != 0 || b != 0);
BERTH_BINARY(logical_xor, (a != 0) != (b != 0));
BERTH_BINARY(bit_and, a& b);
BERTH_BINARY(bit_or, a | b);
BERTH_BINARY(bit_xor, a ^ b);
BERTH_BINARY(shift_left,
             static_cast<std::uint64_t>(b) > 63 ? C{0} : static_cast<C>(static_cast<std::uint64_t>(a) << b));
BERTH_BINARY(shift_right,
             static_cast<std::uint64_t>(b) > 63 ? C{0} : static_cast<C>(static_cast<std::uint64_t>(a) >> b));
BERTH_BINARY(equal, a == b);
BERTH_BINARY(greater, a > b);
BERTH_BINARY(greater_or_equal, a >= b);
BERTH_BINARY(less, a < b);
BERTH_BINARY(less_or_equal, a <= b);
BERTH_BINARY(prelu, a >= 0 ? a : times(a, b));
BERTH_BINARY(clip_below, is_nan(a) || a > b ? a : b);
BERTH_BINARY(clip_above, is_nan(a) || a < b ? a : b);

struct over_count_of {
  template <class C>
  C operator()(const double* p, C x) const {
    return static_cast<C>(x / static_cast<C>(p[0]));
  }
};
struct clip_between_of {
  template <class C>
  C operator()(const double*, C x, C low, C high) const {
    const C raised = is_nan(x) || x > low ? x : low;
    return is_nan(raised) || raised < high ? raised : high;
  }
};
struct clip_by_attributes_of {
  template <class C>
  C operator()(const double* p, C x) const {
    return clip_between_of{}(p, x, static_cast<C>(p[0]), static_cast<C>(p[1]));
  }
};
struct chosen_of {
  template <class C>
  C operator()(const double*, C condition, C a, C b) const {
    return condition != 0 ? a : b;
  }
};

template <const row_functions& Functions>
made two(const request& q, const types& outputs) {
  return map(q, outputs, {Functions, {}, domain_of(input(q, 0).type)});
}

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
  if (alpha == 1) return two<on_all<add_of, 2>>(q, outputs);
  return map(q, outputs, {on_all<add_scaled_of, 2>, {alpha}, domain_of(input(q, 0).type)});
}

types power_type(const request& q) {
  (void)require_number(q, 0);
  (void)require_number(q, 1);
  return {dense(input(q, 0).type, broadcast(shape_of(q, 0), shape_of(q, 1)))};
}
made raise(const request& q, const types& outputs) {
  const element a = input(q, 0).type;
  const bool mixed = !is_real(a) && is_real(input(q, 1).type);
  return map(q, outputs, {on_all<power_of, 2>, {}, mixed ? domain::f64 : domain_of(a)});
}

made modulo(const request& q, const types& outputs) {
  const auto truncates = attribute_or<std::int64_t>(q, "fmod", 0);
  return map(q, outputs, {on_all<modulo_of, 2>, {static_cast<double>(truncates)}, domain_of(input(q, 0).type)});
}

made shift(const request& q, const types& outputs) {
  return choice(q, "direction", "", {"LEFT", "RIGHT"}) == "LEFT" ? two<on_integers<shift_left_of, 2>>(q, outputs)
                                                                 : two<on_integers<shift_right_of, 2>>(q, outputs);
}

template <const row_functions& Functions>
made successive(const request& q, const types& outputs) {
  map_plan plan{Functions, {}, domain_of(input(q, 0).type)};
  plan.successive = true;
  return map(q, outputs, plan);
}
made mean_of_all(const request& q, const types& outputs) {
  map_plan plan{on_all<add_of, 2>, {static_cast<double>(q.inputs.size())}, domain_of(input(q, 0).type)};
  plan.successive = true;
  plan.last = on_all<over_count_of, 1>;
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
  if (has(q, 1) && has(q, 2)) return map(q, outputs, {on_all<clip_between_of, 3>, {}, in});
  if (has(q, 1)) return map(q, outputs, {on_all<clip_below_of, 2>, {}, in});
  if (has(q, 2)) return map(q, outputs, {on_all<clip_above_of, 2>, {}, in});
  const double low = attribute_or(q, "min", -INFINITY), high = attribute_or(q, "max", INFINITY);
  if (low == -INFINITY && high == INFINITY && !is_real(outputs[0].type)) {  // no limits, which integers may have
    return copies(q, outputs, {{0, 0, 0, 0, shape_of(q, 0), strides_of(input(q, 0)), strides_of(outputs[0])}});
  }
  return map(q, outputs, {on_reals<clip_by_attributes_of, 1>, {low, high}, in});
}

types where_type(const request& q) {
  if (input(q, 0).type != element::boolean) refuse("input 0, the condition, is not bool");
  if (input(q, 1).type != input(q, 2).type) refuse("inputs 1 and 2 are of different types");
  const shape both = broadcast(shape_of(q, 1), shape_of(q, 2));
  return {dense(input(q, 1).type, broadcast(shape_of(q, 0), both))};
}
made choose(const request& q, const types& outputs) {
  return map(q, outputs, {on_all<chosen_of, 3>, {}, domain_of(input(q, 1).type)});
}

types prelu_type(const request& q) {
  const types t = numbers_like_all(q);
  if (t[0].shape != shape_of(q, 0)) refuse("the slope does not broadcast to the input");
  return t;
}

constexpr const char* two_shapes = "64x1024,64x1024";
#define BERTH_TWO(NAME, INFER, FUNCTIONS) \
  { NAME, 2, 0, true, INFER, two<FUNCTIONS>, two_shapes }
constexpr definition binary_table[] = {
    {"Add", 2, 0, true, numbers_like_all, add, two_shapes},
    BERTH_TWO("And", truth_of_truths, (on_integers<logical_and_of, 2>)),
    {"BitShift", 2, 0, true, integers_like_all, shift, two_shapes},
    BERTH_TWO("BitwiseAnd", integers_like_all, (on_integers<bit_and_of, 2>)),
    BERTH_TWO("BitwiseOr", integers_like_all, (on_integers<bit_or_of, 2>)),
    BERTH_TWO("BitwiseXor", integers_like_all, (on_integers<bit_xor_of, 2>)),
    {"Clip", 3, 0, true, clip_type, clip, "64x1024,scalar,scalar"},
    BERTH_TWO("Div", numbers_like_all, (on_all<divide_of, 2>)),
    BERTH_TWO("Equal", truth_of_two, (on_all<equal_of, 2>)),
    BERTH_TWO("Greater", truth_of_two, (on_all<greater_of, 2>)),
    BERTH_TWO("GreaterOrEqual", truth_of_two, (on_all<greater_or_equal_of, 2>)),
    BERTH_TWO("Less", truth_of_two, (on_all<less_of, 2>)),
    BERTH_TWO("LessOrEqual", truth_of_two, (on_all<less_or_equal_of, 2>)),
    {"Max", any_number, 0, true, like_any_number, successive<on_all<maximum_of, 2>>, two_shapes},
    {"Mean", any_number, 0, true, like_any_number, mean_of_all, two_shapes},
    {"Min", any_number, 0, true, like_any_number, successive<on_all<minimum_of, 2>>, two_shapes},
    {"Mod", 2, 0, true, numbers_like_all, modulo, two_shapes},
    BERTH_TWO("Mul", numbers_like_all, (on_all<multiply_of, 2>)),
    BERTH_TWO("Or", truth_of_truths, (on_integers<logical_or_of, 2>)),
    {"PRelu", 2, 0, true, prelu_type, two<on_all<prelu_of, 2>>, "64x1024,1024"},
    {"Pow", 2, 0, true, power_type, raise, two_shapes},
    BERTH_TWO("Sub", numbers_like_all, (on_all<subtract_of, 2>)),
    {"Sum", any_number, 0, true, like_any_number, successive<on_all<add_of, 2>>, two_shapes},
    {"Where", 3, 0, true, where_type, choose, "64x1024,64x1024,64x1024"},
    BERTH_TWO("Xor", truth_of_truths, (on_integers<logical_xor_of, 2>)),
};

}  // namespace

extern const rows binary_rows;
const rows binary_rows{binary_table};

}  // namespace berth::op
