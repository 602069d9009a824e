// Scales and zero points, which lie in operands of phase two: one for a whole tensor, or one per row or channel.
#pragma once

#include <algorithm>
#include <cmath>

#include "op/operators/rows.hpp"

namespace berth::op {

inline void require_bytes(const request& q, std::size_t i) {
  const element e = input(q, i).type;
  if (e != element::i8 && e != element::u8) refuse("input " + std::to_string(i) + " is " + name(e) + ", not i8 or u8");
}

// The lowest and highest number of an integer type of at most 32 bits.
[[nodiscard]] inline std::pair<double, double> limits_of(element e) {
  switch (e) {
    case element::i8: return {-128, 127};
    case element::u8: return {0, 255};
    case element::i16: return {-32768, 32767};
    case element::u16: return {0, 65535};
    default: return {-2147483648.0, 2147483647.0};
  }
}

// Rounded to even and held within the type.
inline void write_quantized(element e, std::byte* to, double scaled, double zero) noexcept {
  const auto [low, high] = limits_of(e);
  write(e, to, std::clamp(std::nearbyint(scaled) + zero, low, high));
}

// One operand of scales or zero points: its index, and the distance of its values (0: there is one). `count`: the
// number of values if it is not one.
struct numbers_operand {
  bool there = false;
  std::size_t operand = 0;
  element type = element::f32;
  std::int64_t by = 0;
  [[nodiscard]] double at(bases operands, std::int64_t i, double fallback) const noexcept {
    return there ? read(type, operands[operand] + i * by) : fallback;
  }
};
[[nodiscard]] inline numbers_operand numbers_of(const request& q, std::size_t i, std::int64_t count) {
  if (!has(q, i)) return {};
  const tensor_type& t = input(q, i);
  const bool one = count_of(t.shape) == 1;
  if (!one && t.shape != shape{count}) {
    refuse("input " + std::to_string(i) + " is not one number or one per row or channel");
  }
  return {true, operand_of(q, i), t.type, one ? 0 : strides_of(t)[0]};
}

// The conversion of a sum of products of bytes.
struct rescaling {
  numbers_operand a_zero_point, b_zero_point, a_scale, b_scale, y_scale, y_zero_point;
  element to = element::i32;
  [[nodiscard]] std::int64_t a_zero(bases at, std::int64_t row) const noexcept {
    return static_cast<std::int64_t>(a_zero_point.at(at, row, 0));
  }
  [[nodiscard]] std::int64_t b_zero(bases at, std::int64_t column) const noexcept {
    return static_cast<std::int64_t>(b_zero_point.at(at, column, 0));
  }
  void write(bases at, std::int64_t total, std::int64_t column, std::byte* result) const noexcept {
    if (!y_scale.there) {
      store_as<std::int64_t>(to)(&total, result, 0, 1);
      return;
    }
    const double scale = a_scale.at(at, 0, 1) * b_scale.at(at, column, 1) / y_scale.at(at, 0, 1);
    write_quantized(to, result, static_cast<double>(total) * scale, y_zero_point.at(at, 0, 0));
  }
};
// Rows of a and columns of b (channels of a convolution's result) that have scales and zero points of their own.
struct several {
  std::int64_t rows = 1, columns = 1;
};
[[nodiscard]] inline rescaling integer_rescaling(const request& q, std::size_t a_zero, std::size_t b_zero, element to,
                                                 const several& n) {
  for (const std::size_t zero : {a_zero, b_zero}) {
    if (has(q, zero)) require_bytes(q, zero);
  }
  rescaling r;
  r.a_zero_point = numbers_of(q, a_zero, n.rows);
  r.b_zero_point = numbers_of(q, b_zero, n.columns);
  r.to = to;
  return r;
}
// Returns the rescaling of operators whose inputs are a, its scale, its zero point, b likewise, y's scale, y's zero
// point.
[[nodiscard]] inline rescaling linear_rescaling(const request& q, const several& n) {
  for (const std::size_t scale : {1, 4, 6}) (void)require_real(q, scale);
  rescaling r = integer_rescaling(q, 2, 5, input(q, 7).type, n);
  r.a_scale = numbers_of(q, 1, 1);
  r.b_scale = numbers_of(q, 4, n.columns);
  r.y_scale = numbers_of(q, 6, 1);
  r.y_zero_point = numbers_of(q, 7, 1);
  return r;
}

}  // namespace berth::op
