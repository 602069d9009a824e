// Floats to bytes and back.
#include <array>
#include <limits>

#include "op/operators/quantized.hpp"

namespace berth::op {

namespace {

// Refuses scales that are not one per block of `block` elements of the axis.
void require_blocks(const request& q, std::int64_t block) {
  const shape &s = shape_of(q, 0), &scale = shape_of(q, 1);
  const std::size_t axis = axis_of(q, 1, rank_of(q, 0));
  shape wanted = s;
  if (block < 0) refuse("block_size is negative");
  wanted[axis] = s[axis] / block + (s[axis] % block != 0 ? 1 : 0);
  if (scale != wanted) refuse("scales are " + text_of(scale) + ", not " + text_of(wanted) + ": one per block");
}

// Returns the dimension that scales run along, where they are several.
std::size_t scale_axis(const request& q) {
  const shape& scale = shape_of(q, 1);
  if (count_of(scale) == 1) return 0;
  const std::size_t axis = axis_of(q, 1, rank_of(q, 0));
  if (scale != shape{shape_of(q, 0)[axis]}) refuse("not one scale, nor one per index of the axis");
  return axis;
}

// Scales are one, one per index of the axis or one per block, and zero points likewise.
void require_scales(const request& q) {
  const auto block = attribute_or<std::int64_t>(q, "block_size", 0);
  block == 0 ? static_cast<void>(scale_axis(q)) : require_blocks(q, block);
  if (!has(q, 2) || shape_of(q, 2) == shape_of(q, 1)) return;
  // One number is one, whatever its rank.
  if (count_of(shape_of(q, 1)) != 1 || count_of(shape_of(q, 2)) != 1) refuse("scales and zero points are not alike");
}

element asked_type_or(const request& q, element otherwise) {
  return attribute_or<std::int64_t>(q, "output_dtype", 0) == 0 ? otherwise : asked_type(q, "output_dtype");
}

types quantized_type(const request& q) {
  require_scales(q);
  const element to = asked_type_or(q, has(q, 2) ? input(q, 2).type : element::u8);
  if (has(q, 2) && input(q, 2).type != to) {
    refuse(std::string{"output_dtype is "} + name(to) + ", but the zero point is " + name(input(q, 2).type));
  }
  if (!is_integer(to) || to == element::u32 || element_size(to) > 4) {
    refuse(std::string{has(q, 2) ? "the zero point is " : "output_dtype is "} + name(to) +
           ", not an integer of at most 32 bits");
  }
  (void)require_real(q, 1);
  return {dense(to, shape_of(q, 0))};
}
types dequantized_type(const request& q) {
  require_scales(q);
  if (has(q, 2) && input(q, 2).type != input(q, 0).type) refuse("the zero point is not of the input's type");
  if (!is_integer(input(q, 0).type)) refuse("input 0 is not of integers");
  const element to = asked_type_or(q, require_real(q, 1));
  if (!is_real(to)) refuse(std::string{"output_dtype is "} + name(to) + ", not a float");
  return {dense(to, shape_of(q, 0))};
}

template <class Each>
made per_axis(const request& q, const types& outputs, Each each) {
  if (attribute_or<std::int64_t>(q, "block_size", 0) != 0) refuse("block_size is not supported");
  if (attribute_or<std::int64_t>(q, "precision", 0) > 1) refuse("a precision other than f32 is not supported");
  const shape s = shape_of(q, 0);
  const std::size_t axis = scale_axis(q);
  const numbers_operand scale = numbers_of(q, 1, s.empty() ? 1 : s[axis]),
                        zero = numbers_of(q, 2, s.empty() ? 1 : s[axis]);
  const strides from = strides_of(input(q, 0)), to = strides_of(outputs[0]);
  shape rest = s;
  const bool several = scale.by != 0;
  if (several) rest[axis] = 1;
  const std::int64_t count = several ? s[axis] : 1;
  const auto run = [=, over = nest{rest, {from, to}}](bases at, void*) {
    for (std::int64_t k = 0; k < count; ++k) {
      const double scale_here = scale.at(at, k, 1), zero_here = zero.at(at, k, 0);
      const std::array<std::byte*, 2> base{at[0] + (several ? k * from[axis] : 0),
                                           at.back() + (several ? k * to[axis] : 0)};
      over.each(base, [&](const nest::point& here) { each(here[0], here[1], scale_here, zero_here); });
    }
  };
  return function(q, outputs, run);
}
made quantize(const request& q, const types& outputs) {
  const element from = input(q, 0).type, to = outputs[0].type;
  return per_axis(q, outputs, [=](const std::byte* x, std::byte* y, double scale, double zero) {
    write_quantized(to, y, static_cast<double>(static_cast<float>(read(from, x)) / static_cast<float>(scale)), zero);
  });
}
made dequantize(const request& q, const types& outputs) {
  const element from = input(q, 0).type, to = outputs[0].type;
  return per_axis(q, outputs, [=](const std::byte* x, std::byte* y, double scale, double zero) {
    write(to, y, (read(from, x) - zero) * scale);
  });
}

types dynamic_type(const request& q) {
  (void)require_real(q, 0);
  return {dense(element::u8, shape_of(q, 0)), dense(element::f32, {}), dense(element::u8, {})};
}
made dynamic(const request& q, const types& outputs) {
  const auto run = [type = input(q, 0).type, wanted = outputs.size(),
                    over = nest{shape_of(q, 0), {strides_of(input(q, 0)), strides_of(outputs[0])}}](bases at, void*) {
    float low = 0, high = 0;
    over.each(at, [&](const nest::point& here) {
      const auto x = static_cast<float>(read(type, here[0]));
      low = std::min(low, x);
      high = std::max(high, x);
    });
    const float scale = high == low ? 1 : (high - low) / 255;
    const float zero = std::clamp(std::nearbyint(0 - low / scale), 0.0f, 255.0f);
    over.each(at, [&](const nest::point& here) {
      const auto x = static_cast<float>(read(type, here[0]));
      write_quantized(element::u8, here[1], static_cast<double>(x / scale), zero);
    });
    if (wanted > 1) write(element::f32, at[2], scale);
    if (wanted > 2) write(element::u8, at[3], zero);
  };
  return function(q, outputs, run);
}

constexpr definition quantization_table[] = {
    {"DequantizeLinear", 3, 0, true, dequantized_type, dequantize, "64x1024,1"},
    {"DynamicQuantizeLinear", 1, 0, true, dynamic_type, dynamic, "64x1024"},
    {"QuantizeLinear", 3, 0, true, quantized_type, quantize, "64x1024,1"},
};

}  // namespace

const rows quantization_rows{quantization_table};

}  // namespace berth::op
