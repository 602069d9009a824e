// Floats to bytes and back.
#include <array>
#include <limits>

#include "op/operators/quantized.hpp"

namespace berth::op {

namespace {

// The dimension that scales run along, where they are several.
std::size_t scale_axis(const request& q) {
  const shape& scale = shape_of(q, 1);
  if (scale.empty() || count_of(scale) == 1) return 0;
  const std::size_t axis = axis_of(q, 1, rank_of(q, 0));
  if (scale != shape{shape_of(q, 0)[axis]}) refuse("not one scale, nor one per index of the axis");
  return axis;
}

types quantized_type(const request& q) {
  (void)scale_axis(q);
  if (has(q, 2) && shape_of(q, 2) != shape_of(q, 1)) refuse("scales and zero points are not alike");
  const element to = has(q, 2) ? input(q, 2).type : element::u8;
  if (!is_integer(to) || to == element::u32 || element_size(to) > 4) {
    refuse(std::string{"the zero point is "} + name(to) + ", not an integer of at most 32 bits");
  }
  (void)require_real(q, 1);
  return {dense(to, shape_of(q, 0))};
}
types dequantized_type(const request& q) {
  (void)scale_axis(q);
  if (has(q, 2) && (shape_of(q, 2) != shape_of(q, 1) || input(q, 2).type != input(q, 0).type)) {
    refuse("the zero point is not alike with the input or the scale");
  }
  if (!is_integer(input(q, 0).type)) refuse("input 0 is not of integers");
  return {dense(require_real(q, 1), shape_of(q, 0))};
}

template <class Each>
made per_axis(const request& q, const types& outputs, Each each) {
  const shape s = shape_of(q, 0);
  const std::size_t axis = scale_axis(q);
  const numbers_operand scale = numbers_of(q, 1, s.empty() ? 1 : s[axis]),
                        zero = numbers_of(q, 2, s.empty() ? 1 : s[axis]);
  const strides from = strides_of(input(q, 0)), to = strides_of(outputs[0]);
  shape rest = s;
  const bool several = scale.by != 0;
  if (several) rest[axis] = 1;
  const std::int64_t count = several ? s[axis] : 1;
  const auto run = [=, over = nest{rest, {from, to}}](std::span<std::byte* const> at, void*) {
    for (std::int64_t k = 0; k < count; ++k) {
      const double scale_here = scale.at(at, k, 1), zero_here = zero.at(at, k, 0);
      const std::array<std::byte*, 2> base{at[0] + (several ? k * from[axis] : 0),
                                           at.back() + (several ? k * to[axis] : 0)};
      over.rows(base, [&](std::byte* const* row) {
        for (std::int64_t i = 0; i < over.row(); ++i) {
          each(row[0] + i * over.stride(0), row[1] + i * over.stride(1), scale_here, zero_here);
        }
      });
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
                    over = nest{shape_of(q, 0), {strides_of(input(q, 0)), strides_of(outputs[0])}}](
                       std::span<std::byte* const> at, void*) {
    float low = 0, high = 0;
    over.rows(at, [&](std::byte* const* row) {
      for (std::int64_t i = 0; i < over.row(); ++i) {
        const auto x = static_cast<float>(read(type, row[0] + i * over.stride(0)));
        low = std::min(low, x);
        high = std::max(high, x);
      }
    });
    const float scale = high == low ? 1 : (high - low) / 255;
    const float zero = std::clamp(std::nearbyint(0 - low / scale), 0.0f, 255.0f);
    over.rows(at, [&](std::byte* const* row) {
      for (std::int64_t i = 0; i < over.row(); ++i) {
        const auto x = static_cast<float>(read(type, row[0] + i * over.stride(0)));
        write_quantized(element::u8, row[1] + i * over.stride(1), static_cast<double>(x / scale), zero);
      }
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

extern const rows quantization_rows;
const rows quantization_rows{quantization_table};

}  // namespace berth::op
