// Convolutions, of floats and of bytes, and the transposed one.
#include <algorithm>
#include <optional>

#include "op/operators/place.hpp"
#include "op/operators/quantized.hpp"
#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

struct convolved {
  window over;
  std::int64_t groups = 1;
  shape x, w, y;  // N C spatial..., M C/groups kernel..., N M spatial...
  strides x_by, w_by, y_by;
  shape spatial;  // of y
};

std::int64_t groups_of(const request& q) {
  return attribute_or<std::int64_t>(q, "group", 1);
}

shape convolved_shape(const request& q, std::size_t w_at) {
  const shape &x = shape_of(q, 0), &w = shape_of(q, w_at);
  if (x.size() < 3 || x.size() != w.size()) refuse("input and weights are not of one rank of 3 or more");
  const std::int64_t groups = groups_of(q);
  if (groups < 1 || groups > most_extent || w[1] * groups != x[1] || w[0] % groups != 0) {
    refuse("weights " + text_of(w) + " do not fit input " + text_of(x) + " in " + std::to_string(groups) + " groups");
  }
  return windowed(q, x, w[0], window_of(q, x, {w.begin() + 2, w.end()}));
}

convolved convolved_of(const request& q, std::size_t w_at, const tensor_type& y, std::optional<window> over = {}) {
  convolved c;
  c.x = shape_of(q, 0);
  c.w = shape_of(q, w_at);
  c.y = y.shape;
  c.over = over ? *std::move(over) : window_of(q, c.x, {c.w.begin() + 2, c.w.end()});
  c.groups = groups_of(q);
  c.x_by = strides_of(input(q, 0));
  c.w_by = strides_of(input(q, w_at));
  c.y_by = strides_of(y);
  c.spatial = {c.y.begin() + 2, c.y.end()};
  return c;
}

// f(n, m, place in y, address in y) for all of y.
template <class F>
void each_result(const convolved& c, std::byte* y, F&& f) {
  for (std::int64_t n = 0; n < c.y[0]; ++n) {
    for (std::int64_t m = 0; m < c.y[1]; ++m) {
      place at{};
      do {
        std::byte* to = y + n * c.y_by[0] + m * c.y_by[1];
        for (std::size_t d = 0; d < c.spatial.size(); ++d) to += at[d] * c.y_by[d + 2];
        f(n, m, at, to);
      } while (advance(at, c.spatial));
    }
  }
}

// Calls f(address in x, address in w) for the elements of a window that are there. index(d, k) is the index in x of
// element k of the window in dimension d; below 0: none.
template <class Index, class F>
void each_tap(const convolved& c, const std::byte* x, const std::byte* w, Index index, F&& f) {
  place k{};
  do {
    const std::byte *from = x, *weight = w;
    bool inside = true;
    for (std::size_t d = 0; d < c.spatial.size(); ++d) {
      const std::int64_t i = index(d, k[d]);
      inside = inside && i >= 0 && i < c.x[d + 2];
      from += i * c.x_by[d + 2];
      weight += k[d] * c.w_by[d + 2];
    }
    if (inside) f(from, weight);
  } while (advance(k, c.over.kernel));
}
// The same for the products that one result sums: at each, the first of c.w[1] channels.
template <class F>
void each_term(const convolved& c, const std::byte* x, const std::byte* w, std::int64_t n, std::int64_t m,
               const place& at, F&& f) {
  const std::int64_t first = m / (c.w[0] / c.groups) * c.w[1];
  const auto index = [&](std::size_t d, std::int64_t k) {
    return at[d] * c.over.strides[d] + k * c.over.dilations[d] - c.over.pads_begin[d];
  };
  each_tap(c, x + n * c.x_by[0] + first * c.x_by[1], w + m * c.w_by[0], index, f);
}

// The type of a convolution of floats whose result has this shape.
types real_type(const request& q, const shape& to) {
  if (has(q, 2) && shape_of(q, 2) != shape{to[1]}) refuse("the bias has not one value per output channel");
  return {dense(input(q, 0).type, to)};
}

types convolution_type(const request& q) {
  (void)require_real(q, 0);
  require_same_types(q);
  return real_type(q, convolved_shape(q, 1));
}
made convolution(const request& q, const types& outputs) {
  const bool biased = has(q, 2);
  const auto run = [=, c = convolved_of(q, 1, outputs[0]), type = outputs[0].type,
                    bias_by = biased ? strides_of(input(q, 2))[0] : 0](bases at, void*) {
    each_result(c, at[biased ? 3 : 2], [&](std::int64_t n, std::int64_t m, const place& p, std::byte* to) {
      double total = biased ? read(type, at[2] + m * bias_by) : 0;
      each_term(c, at[0], at[1], n, m, p, [&](const std::byte* x, const std::byte* w) {
        total += dot(type, x, c.x_by[1], w, c.w_by[1], c.w[1]);
      });
      write(type, to, total);
    });
  };
  return function(q, outputs, run);
}

made bytes_convolution(const request& q, const types& outputs, std::size_t w_at, const rescaling& scale,
                       std::size_t bias) {
  const numbers_operand shift = bias == 0 ? numbers_operand{} : numbers_of(q, bias, outputs[0].shape[1]);
  const std::size_t w_operand = operand_of(q, w_at), y = operands_of(q).size();
  const auto run = [=, c = convolved_of(q, w_at, outputs[0]), x_type = input(q, 0).type, w_type = input(q, w_at).type](
                       bases at, void*) {
    each_result(c, at[y], [&](std::int64_t n, std::int64_t m, const place& p, std::byte* to) {
      const std::int64_t x_zero = scale.a_zero(at, 0), w_zero = scale.b_zero(at, m);
      auto total = static_cast<std::int64_t>(shift.at(at, m, 0));
      each_term(c, at[0], at[w_operand], n, m, p, [&](const std::byte* x, const std::byte* w) {
        for (std::int64_t k = 0; k < c.w[1]; ++k) {
          total +=
              (read_integer(x_type, x + k * c.x_by[1]) - x_zero) * (read_integer(w_type, w + k * c.w_by[1]) - w_zero);
        }
      });
      scale.write(at, total, m, to);
    });
  };
  return function(q, outputs, run);
}
types integer_convolution_type(const request& q) {
  require_bytes(q, 0);
  require_bytes(q, 1);
  return {dense(element::i32, convolved_shape(q, 1))};
}
made integer_convolution(const request& q, const types& outputs) {
  return bytes_convolution(q, outputs, 1, integer_rescaling(q, 2, 3, element::i32, {1, outputs[0].shape[1]}), 0);
}
types linear_convolution_type(const request& q) {
  require_bytes(q, 0);
  require_bytes(q, 3);
  require_bytes(q, 7);
  if (has(q, 8) && input(q, 8).type != element::i32) refuse("the bias is not i32");
  return {dense(input(q, 7).type, convolved_shape(q, 3))};
}
made linear_convolution(const request& q, const types& outputs) {
  return bytes_convolution(q, outputs, 3, linear_rescaling(q, {1, outputs[0].shape[1]}), has(q, 8) ? 8 : 0);
}

}  // namespace

// The transposed convolution: every input element adds a window to the result.
spreading spreading_of(const request& q) {
  const shape &x = shape_of(q, 0), &w = shape_of(q, 1);
  if (x.size() < 3 || x.size() != w.size() || w[0] != x[1]) refuse("input and weights do not fit one another");
  if (groups_of(q) < 1 || groups_of(q) > x[1] || x[1] % groups_of(q) != 0)
    refuse("the channels are no multiple of group");
  request plain = q;
  const auto automatic = attribute_or<std::string>(q, "auto_pad", "NOTSET");
  plain.attributes.erase("auto_pad");
  spreading s{window_of(plain, x, {w.begin() + 2, w.end()}), {x[0], w[1] * groups_of(q)}};
  const std::size_t spatial = x.size() - 2;
  const auto wanted = attribute_or(q, "output_shape", shape{});
  const auto more = attribute_or(q, "output_padding", shape(spatial, 0));
  if (more.size() != spatial || (!wanted.empty() && wanted.size() != spatial))
    refuse("output_shape or output_padding does not fit");
  for (std::size_t d = 0; d < spatial; ++d) {
    if (more[d] < 0 || more[d] > most_extent) refuse("output_padding is out of range");
    if (!wanted.empty() && (wanted[d] < 1 || wanted[d] > most_extent)) refuse("output_shape is out of range");
    const std::int64_t reach = (w[d + 2] - 1) * s.over.dilations[d] + 1;
    const std::int64_t whole = (x[d + 2] - 1) * s.over.strides[d] + reach + more[d];
    const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (!wanted.empty() || same) {
      const std::int64_t to = wanted.empty() ? x[d + 2] * s.over.strides[d] : wanted[d];
      const std::int64_t total = std::max<std::int64_t>(whole - to, 0);
      const std::int64_t half = total / 2;
      // Opset 11 moved the larger part to the other end.
      const bool more_at_end = (automatic == "SAME_UPPER") == (q.opset >= 11);
      s.over.pads_begin[d] = more_at_end ? half : total - half;
      s.over.pads_end[d] = total - s.over.pads_begin[d];
      s.result.push_back(to);
    } else {
      s.result.push_back(whole - s.over.pads_begin[d] - s.over.pads_end[d]);
    }
    if (s.result.back() < 1) refuse("the result is empty");
  }
  return s;
}

namespace {

types spread_type(const request& q) {
  (void)require_real(q, 0);
  require_same_types(q);
  return real_type(q, spreading_of(q).result);
}
made spread(const request& q, const types& outputs) {
  const convolved c = convolved_of(q, 1, outputs[0], spreading_of(q).over);
  const bool biased = has(q, 2);
  const auto run = [=, type = outputs[0].type, bias_by = biased ? strides_of(input(q, 2))[0] : 0](bases at, void*) {
    const std::int64_t in_each = c.x[1] / c.groups, out_each = c.w[1];
    each_result(c, at[biased ? 3 : 2], [&](std::int64_t n, std::int64_t m, const place& p, std::byte* to) {
      double total = biased ? read(type, at[2] + m * bias_by) : 0;
      const std::int64_t first = m / out_each * in_each;
      const auto index = [&](std::size_t d, std::int64_t k) {
        const std::int64_t reach = p[d] + c.over.pads_begin[d] - k * c.over.dilations[d];
        return reach % c.over.strides[d] != 0 ? -1 : reach / c.over.strides[d];
      };
      each_tap(c, at[0] + n * c.x_by[0] + first * c.x_by[1], at[1] + m % out_each * c.w_by[1] + first * c.w_by[0],
               index, [&](const std::byte* x, const std::byte* weights) {
                 total += dot(type, x, c.x_by[1], weights, c.w_by[0], in_each);
               });
      write(type, to, total);
    });
  };
  return function(q, outputs, run);
}

constexpr definition window_table[] = {
    {"Conv", 3, 0, false, convolution_type, convolution, "1x8x32x32,16x8x3x3"},
    {"ConvInteger", 4, 0, false, integer_convolution_type, integer_convolution, "1x8x16x16,8x8x3x3"},
    {"ConvTranspose", 3, 0, false, spread_type, spread, "1x8x16x16,8x8x3x3"},
    {"QLinearConv", 9, 0, false, linear_convolution_type, linear_convolution, "1x8x16x16,1,1,8x8x3x3,1,1,1,1"},
};

}  // namespace

const rows window_rows{window_table};

}  // namespace berth::op
