// Rules for the types of results that many operators share.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "op/plain/plain.hpp"
#include "op/request.hpp"
#include "op/shapes.hpp"

namespace berth::op {

using types = std::vector<tensor_type>;
using infer_function = decltype(definition::infer);

// Each file of operators lists its rows; registry.cpp puts the lists together.
using rows = std::span<const definition>;
extern const rows algebra_rows, binary_rows, choosing_rows, elementwise_rows, gathering_rows, lane_rows, loss_rows,
    movement_rows, normalization_rows, pooling_rows, product_rows, quantization_rows, recurrent_rows, reduction_rows,
    resizing_rows, sampling_rows, shaping_rows, signal_rows, window_rows;

// One result like input 0.
[[nodiscard]] types like_first(const request& q);
// One result of input 0's type and all inputs' shape, broadcast; inputs of one type.
[[nodiscard]] types like_all(const request& q);
// The same, of booleans.
[[nodiscard]] types truth_of_all(const request& q);

// A result of i64 known in phase one: it is copied from there.
[[nodiscard]] made known(const request& q, const types& outputs, std::vector<std::int64_t> values);

// Arithmetic that wraps around.
template <class C>
[[nodiscard]] constexpr C sum(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}
template <class C>
[[nodiscard]] constexpr C difference(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  else
    return a - b;
}
template <class C>
[[nodiscard]] constexpr C times(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}
template <class C>
[[nodiscard]] constexpr C quotient(C a, C b) {
  if constexpr (std::is_floating_point_v<C>)
    return a / b;
  else if (b == 0)
    return 0;
  else if constexpr (std::is_signed_v<C>)
    return b == -1 ? difference(C{0}, a) : a / b;
  else
    return a / b;
}

// Keys, "Cubic convolution interpolation for digital image processing" (1981).
[[nodiscard]] inline std::array<double, 4> cubic_weights(double fraction, double a) {
  const double t = fraction, u = 1 - t;
  const auto far = [a](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto near = [a](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  return {far(t + 1), near(t), near(u), far(u + 1)};
}

// A number of the operator in a kernel's type: an integer by the rule of conversion, without overflow.
template <class C>
[[nodiscard]] constexpr C from_real(double x) {
  if constexpr (std::is_integral_v<C>)
    return truncated<C>(x);
  else
    return static_cast<C>(x);
}

}  // namespace berth::op
