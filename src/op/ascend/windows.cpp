// Convolutions and pools.
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "op/ascend/rows.hpp"

namespace berth::op::ascend {
namespace {

using numbers = std::vector<std::int64_t>;

bool is_even(const window& w) {
  return w.pads_begin == w.pads_end;
}

// Returns one number a dimension if both ends are alike; of one and of two dimensions also both ends, one after the
// other.
numbers both_ends(const window& w) {
  if (is_even(w)) return w.pads_begin;
  require(w.kernel.size() <= 2, "the device pads both ends of three dimensions alike");
  numbers all;
  for (std::size_t d = 0; d < w.kernel.size(); ++d) all.insert(all.end(), {w.pads_begin[d], w.pads_end[d]});
  return all;
}

asking convolving(setting& s, const window& w, numbers pads, bool transposed, const numbers& more) {
  return asks(s, in{0}, in{1}, in{has(s.q, 2) ? 2 : nothing}, array_of(s, w.strides), array_of(s, pads),
              array_of(s, w.dilations), transposed, array_of(s, more), attribute_or<std::int64_t>(s.q, "group", 1),
              out{s.given}, cube_type{});
}

window window_of_weights(const setting& s) {
  const shape& weights = shape_of(s.q, 1);
  return window_of(s.q, shape_of(s.q, 0), {weights.begin() + 2, weights.end()});
}

asking convolution(setting& s) {
  const window w = window_of_weights(s);
  return convolving(s, w, both_ends(w), false, numbers(w.kernel.size(), 0));
}

asking transposed_convolution(setting& s) {
  require(attribute_or<std::string>(s.q, "auto_pad", "NOTSET") == "NOTSET" && !s.q.attributes.contains("output_shape"),
          "the device is told the padding of a transposed convolution in numbers");
  const window w = window_of_weights(s);
  require(is_even(w), "the device pads both ends of a transposed convolution alike");
  return convolving(s, w, w.pads_begin, true, attribute_or(s.q, "output_padding", numbers(w.kernel.size(), 0)));
}

// Returns the window of a pool. The device's pools pass over planes: a row is a plane of one row.
window pooled(setting& s) {
  window w = window_of(s.q, shape_of(s.q, 0), {});
  require(w.kernel.size() <= 2, "the device's pools have at most two spatial dimensions");
  require(std::ranges::all_of(w.dilations, [](std::int64_t d) { return d == 1; }), "the device's pools have no gaps");
  if (w.kernel.size() == 2) return w;
  for (tensor_type& t : s.how.types) {
    t.shape.insert(t.shape.begin() + 2, 1);
    t.strides.insert(t.strides.begin() + 2, t.strides[2]);
  }
  for (numbers* each : {&w.kernel, &w.strides, &w.dilations}) each->insert(each->begin(), 1);
  for (numbers* each : {&w.pads_begin, &w.pads_end}) each->insert(each->begin(), 0);
  return w;
}
std::int64_t rounds_up(const setting& s) {
  return attribute_or<std::int64_t>(s.q, "ceil_mode", 0) != 0 ? 1 : 0;
}

asking max_pool(setting& s) {
  require(s.outputs.size() == 1, "the device gives no indices");
  const window w = pooled(s);
  numbers pads = w.pads_begin;
  pads.insert(pads.end(), w.pads_end.begin(), w.pads_end.end());
  constexpr std::int64_t by_numbers = 0;
  return asks(s, in{0}, array_of(s, w.kernel), array_of(s, w.strides), by_numbers, array_of(s, pads),
              array_of(s, w.dilations), rounds_up(s), out{1});
}

asking average_pool(setting& s) {
  const window w = pooled(s);
  require(is_even(w), "the device pads both ends of an average alike");
  const bool padding_counts = attribute_or<std::int64_t>(s.q, "count_include_pad", 0) != 0;
  constexpr std::int64_t by_count = 0;
  return asks(s, in{0}, array_of(s, w.kernel), array_of(s, w.strides), array_of(s, w.pads_begin), rounds_up(s) != 0,
              padding_counts, by_count, cube_type{}, out{1});
}

// Returns all spatial dimensions.
numbers spatial(const setting& s) {
  numbers axes(s.rank() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}
asking global_mean(setting& s) {
  return reducing_to_type(s, spatial(s), true);
}
asking global_maximum(setting& s) {
  return reducing(s, spatial(s), true);
}

constexpr row window_table[] = {
    {"AveragePool", "aclnnAvgPool2d", average_pool},
    {"Conv", "aclnnConvolution", convolution},
    {"ConvTranspose", "aclnnConvolution", transposed_convolution},
    {"GlobalAveragePool", "aclnnMean", global_mean},
    {"GlobalMaxPool", "aclnnAmax", global_maximum},
    {"MaxPool", nullptr, max_pool},
};

}  // namespace

const rows window_rows{window_table};

}  // namespace berth::op::ascend
