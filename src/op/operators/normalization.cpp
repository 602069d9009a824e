// Normalizations: statistics in f64.
#include <algorithm>
#include <array>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

types first_real(const request& q) {
  (void)require_real(q, 0);
  return like_first(q);
}

// Normalizations per channel use given statistics, or their own (training_mode, from opset 14 on).
bool trains(const request& q) {
  return attribute_or<std::int64_t>(q, "training_mode", 0) != 0;
}
types batch_type(const request& q) {
  const shape& x = shape_of(q, 0);
  if (x.size() < 2) refuse("needs a dimension of channels");
  for (std::size_t i = 1; i < 5; ++i) {
    if (shape_of(q, i) != shape{x[1]}) refuse("scale, bias, mean or variance has not one value per channel");
  }
  types t = first_real(q);
  if (trains(q)) {
    for (std::size_t i = 3; i < 5; ++i) t.push_back(dense(require_real(q, i), {x[1]}));
  }
  return t;
}

// Returns mean and variance of the elements that the nest walks over.
std::array<double, 2> moments(const nest& over, bases base, element type, double count) {
  double total = 0, squares = 0;
  over.each(base, [&](const nest::point& here) { total += read(type, here[0]); });
  const double mean = total / count;
  over.each(base, [&](const nest::point& here) {
    const double x = read(type, here[0]) - mean;
    squares += x * x;
  });
  return {mean, squares / count};
}

made batch(const request& q, const types& outputs) {
  const shape x = shape_of(q, 0);
  const double epsilon = attribute_or(q, "epsilon", 1e-5f);
  shape plane = x;
  plane[1] = 1;
  const strides from = strides_of(input(q, 0)), to = strides_of(outputs[0]);
  std::array<element, 4> types_of{};
  std::array<std::int64_t, 4> by{};
  for (std::size_t i = 0; i < 4; ++i) {
    types_of[i] = input(q, i + 1).type;
    by[i] = strides_of(input(q, i + 1))[0];
  }
  std::array<std::int64_t, 3> running_by{};
  for (std::size_t i = 1; i < outputs.size(); ++i) running_by[i] = strides_of(outputs[i])[0];
  const double kept = attribute_or(q, "momentum", 0.9f), count = static_cast<double>(count_of(plane));
  const auto run = [=, type = outputs[0].type, trained = trains(q), results = outputs.size(),
                    over = nest{plane, {from, to}}](bases at, void*) {
    for (std::int64_t c = 0; c < x[1]; ++c) {
      std::array<double, 4> v{};
      for (std::size_t i = 0; i < 4; ++i) v[i] = read(types_of[i], at[i + 1] + c * by[i]);
      const std::array<std::byte*, 2> base{at[0] + c * from[1], at[5] + c * to[1]};
      if (trained) {
        const auto now = moments(over, base, type, count);
        for (std::size_t i = 1; i < results; ++i) {
          write(types_of[i + 1], at[5 + i] + c * running_by[i], kept * v[i + 1] + (1 - kept) * now[i - 1]);
        }
        std::copy(now.begin(), now.end(), v.begin() + 2);
      }
      const double scale = v[0] / std::sqrt(v[3] + epsilon), shift = v[1] - v[2] * scale;
      over.each(base, [&](const nest::point& here) { write(type, here[1], read(type, here[0]) * scale + shift); });
    }
  };
  return function(q, outputs, run);
}

// A normalization by groups: `outer` runs over the groups. `inner` runs over a group's elements of input, scale, bias
// and result.
struct grouped {
  nest outer, inner;
  std::int64_t count = 1;
  bool centred = true;
  double epsilon = 0;
  bool to_deviation = false;  // epsilon is added to the deviation, else to the variance
  element type = element::f32, scale_type = element::f32;
  std::ptrdiff_t scale = -1, shift = -1, mean = -1, deviation = -1;  // operands; -1: there is none
  std::size_t result = 0;
};

// `by`: strides of input, scale, shift, result, mean and deviation over the whole shape; none where there is no
// operand. `within`: the dimensions that are normalized together.
made normalize(const request& q, const types& outputs, grouped g, const std::vector<bool>& within,
               std::array<strides, 6> by) {
  const shape& s = shape_of(q, 0);
  shape outer, inner;
  std::vector<strides> outer_by(6), inner_by(4);
  for (std::size_t d = 0; d < s.size(); ++d) {
    (within[d] ? inner : outer).push_back(s[d]);
    auto& to = within[d] ? inner_by : outer_by;
    for (std::size_t k = 0; k < to.size(); ++k) to[k].push_back(by[k].empty() ? 0 : by[k][d]);
  }
  g.outer = nest{outer, outer_by};
  g.inner = nest{inner, inner_by};
  g.count = std::max<std::int64_t>(count_of(inner), 1);
  g.type = input(q, 0).type;
  return function(q, outputs, [g](bases at, void*) {
    std::byte* const none = at[0];
    const auto where = [&](std::ptrdiff_t k) { return k < 0 ? none : at[static_cast<std::size_t>(k)]; };
    // Operands of both nests: input, scale, shift, result; then mean, deviation.
    const std::array<std::byte*, 6> base{at[0],        where(g.scale), where(g.shift),
                                         at[g.result], where(g.mean),  where(g.deviation)};
    g.outer.each(base, [&](const nest::point& here) {
      std::array<std::byte*, 6> first{};
      for (std::size_t k = 0; k < 6; ++k) first[k] = here[k];
      const bases four{first.data(), 4};
      double total = 0, squares = 0;
      if (g.centred) {
        g.inner.each(four, [&](const nest::point& there) { total += read(g.type, there[0]); });
      }
      const double mean = total / static_cast<double>(g.count);
      g.inner.each(four, [&](const nest::point& there) {
        const double x = read(g.type, there[0]) - mean;
        squares += x * x;
      });
      const double variance = squares / static_cast<double>(g.count);
      const double inverse = 1 / (g.to_deviation ? std::sqrt(variance) + g.epsilon : std::sqrt(variance + g.epsilon));
      g.inner.each(four, [&](const nest::point& there) {
        const double scale = g.scale < 0 ? 1 : read(g.scale_type, there[1]);
        const double shift = g.shift < 0 ? 0 : read(g.scale_type, there[2]);
        const double x = read(g.type, there[0]);
        write(g.type, there[3], (x - mean) * inverse * scale + shift);
      });
      if (g.mean >= 0) write(element::f32, first[4], mean);
      if (g.deviation >= 0) write(element::f32, first[5], inverse);
    });
  });
}

// Over the dimensions from the axis on. LayerNormalization, and RMSNormalization, which does not centre.
types layer_type(const request& q) {
  types t = first_real(q);
  const std::size_t axis = axis_of(q, -1, rank_of(q, 0));
  for (std::size_t i = 1; i < 3; ++i) {
    if (!has(q, i)) continue;
    const shape inner(t[0].shape.begin() + static_cast<std::ptrdiff_t>(axis), t[0].shape.end());
    if (broadcast(shape_of(q, i), inner) != inner) refuse("scale or bias does not fit what is normalized");
  }
  (void)input(q, 1);
  if (has(q, 2) && input(q, 2).type != input(q, 1).type) refuse("scale and bias are of different types");
  shape kept = t[0].shape;
  std::fill(kept.begin() + static_cast<std::ptrdiff_t>(axis), kept.end(), 1);
  t.push_back(dense(element::f32, kept));
  t.push_back(dense(element::f32, kept));
  return t;
}
made layer(const request& q, const types& outputs) {
  const std::size_t axis = axis_of(q, -1, rank_of(q, 0));
  const shape s = shape_of(q, 0);
  grouped g;
  g.centred = q.op == "LayerNormalization";
  g.epsilon = attribute_or(q, "epsilon", 1e-5f);
  g.scale = 1;
  g.scale_type = input(q, 1).type;
  g.shift = has(q, 2) ? 2 : -1;
  g.result = has(q, 2) ? 3 : 2;
  if (outputs.size() > 1) g.mean = static_cast<std::ptrdiff_t>(g.result) + 1;
  if (outputs.size() > 2) g.deviation = static_cast<std::ptrdiff_t>(g.result) + 2;
  std::vector<bool> within(s.size());
  std::fill(within.begin() + static_cast<std::ptrdiff_t>(axis), within.end(), true);
  const auto of_result = [&](std::size_t i) { return outputs.size() > i ? strides_of(outputs[i]) : strides{}; };
  return normalize(
      q, outputs, std::move(g), within,
      {strides_of(input(q, 0)), broadcast_strides(input(q, 1), s),
       has(q, 2) ? broadcast_strides(input(q, 2), s) : strides{}, of_result(0), of_result(1), of_result(2)});
}

// Over the spatial dimensions, per channel.
types instance_type(const request& q) {
  const shape& x = shape_of(q, 0);
  if (x.size() < 3 || shape_of(q, 1) != shape{x[1]} || shape_of(q, 2) != shape{x[1]}) {
    refuse("needs spatial dimensions, and scale and bias with one value per channel");
  }
  if (input(q, 2).type != input(q, 1).type) refuse("scale and bias are of different types");
  return first_real(q);
}
made instance(const request& q, const types& outputs) {
  const shape s = shape_of(q, 0);
  grouped g;
  g.epsilon = attribute_or(q, "epsilon", 1e-5f);
  g.scale = 1;
  g.shift = 2;
  g.result = 3;
  g.scale_type = input(q, 1).type;
  std::vector<bool> within(s.size(), true);
  within[0] = within[1] = false;
  strides scale(s.size(), 0), shift = scale;
  scale[1] = strides_of(input(q, 1))[0];
  shift[1] = strides_of(input(q, 2))[0];
  return normalize(q, outputs, std::move(g), within, {strides_of(input(q, 0)), scale, shift, strides_of(outputs[0])});
}

// MeanVarianceNormalization: over the axes named.
made mean_variance(const request& q, const types& outputs) {
  std::vector<bool> within(shape_of(q, 0).size());
  for (const std::int64_t a : attribute_or(q, "axes", shape{0, 2, 3})) within[axis_of(a, rank_of(q, 0))] = true;
  grouped g;
  g.epsilon = 1e-9;
  g.to_deviation = true;
  g.result = 1;
  return normalize(q, outputs, std::move(g), within, {strides_of(input(q, 0)), {}, {}, strides_of(outputs[0])});
}

types response_type(const request& q) {
  if (shape_of(q, 0).size() < 2) refuse("needs a dimension of channels");
  if (attribute_or<std::int64_t>(q, "size", 0) < 1) refuse("size is out of range");
  return first_real(q);
}
// Sums of a window that passes over channels, without a walk over the window for each. A window touches two blocks of
// its width, the end of one and the begin of the next. It subtracts nothing: that would leave rounding errors of large
// neighbours behind, and NaN of infinite ones.
class window_sums {
 public:
  window_sums(std::int64_t channels, std::int64_t size)
      : before_{std::min((size - 1) / 2, channels)},
        width_{before_ + std::min(size / 2, channels) + 1},
        channels_{channels},
        places_{channels + width_ - 1} {}
  [[nodiscard]] bytes workspace() const noexcept { return static_cast<bytes>(places_) * 2 * sizeof(double); }
  // term(channel), summed up from each block's begin, and to its end.
  template <class F>
  void fill(void* workspace, F&& term) const noexcept {
    auto *from_begin = static_cast<double*>(workspace), *to_end = from_begin + places_;
    for (std::int64_t i = 0; i < places_; ++i) {
      const std::int64_t c = i - before_;
      to_end[i] = c >= 0 && c < channels_ ? term(c) : 0.0;
      from_begin[i] = to_end[i] + (i % width_ == 0 ? 0.0 : from_begin[i - 1]);
    }
    for (std::int64_t i = places_ - 1; i-- > 0;) {
      if ((i + 1) % width_ != 0) to_end[i] += to_end[i + 1];
    }
  }
  [[nodiscard]] double of(const void* workspace, std::int64_t channel) const noexcept {
    const auto* const from_begin = static_cast<const double*>(workspace);
    const double next = from_begin[channel + width_ - 1];
    return channel % width_ == 0 ? next : from_begin[places_ + channel] + next;
  }

 private:
  std::int64_t before_, width_, channels_, places_;
};

made response(const request& q, const types& outputs) {
  const shape x = shape_of(q, 0);
  const double alpha = attribute_or(q, "alpha", 1e-4f), beta = attribute_or(q, "beta", 0.75f),
               bias = attribute_or(q, "bias", 1.0f);
  const auto size = attribute_or<std::int64_t>(q, "size", 0);
  shape plane = x;
  plane[1] = 1;
  const strides from = strides_of(input(q, 0)), to = strides_of(outputs[0]);
  const window_sums sums{x[1], size};
  const auto run = [=, type = outputs[0].type, over = nest{plane, {from, to}}](bases at, void* workspace) {
    over.each(at, [&](const nest::point& here) {
      const std::byte* x0 = here[0];
      sums.fill(workspace, [&](std::int64_t c) {
        const double v = read(type, x0 + c * from[1]);
        return v * v;
      });
      for (std::int64_t c = 0; c < x[1]; ++c) {
        const double divisor = std::pow(bias + alpha / static_cast<double>(size) * sums.of(workspace, c), beta);
        write(type, here[1] + c * to[1], read(type, x0 + c * from[1]) / divisor);
      }
    });
  };
  return function(q, outputs, run, sums.workspace(), "sums of neighbours");
}

constexpr definition normalization_table[] = {
    {"BatchNormalization", 5, 0, true, batch_type, batch, "2x16x16x16,16,16,16,16"},
    {"InstanceNormalization", 3, 0, true, instance_type, instance, "2x16x16x16,16,16"},
    {"LRN", 1, 0, false, response_type, response, "2x16x16x16"},
    {"LayerNormalization", 3, 0, true, layer_type, layer, "64x1024,1024,1024"},
    {"MeanVarianceNormalization", 1, 0, true, first_real, mean_variance, "2x16x16x16"},
    {"RMSNormalization", 2, 0, true, layer_type, layer, "64x1024,1024"},
};

}  // namespace

const rows normalization_rows{normalization_table};

}  // namespace berth::op
