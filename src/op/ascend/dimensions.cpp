// Operators along dimensions: softmax, sums, extremes, orders, norms.
#include <algorithm>

#include "op/ascend/rows.hpp"

namespace berth::op::ascend {
namespace {

asking softmax(setting& s) {
  const auto rank = static_cast<std::int64_t>(s.rank());
  const bool flattens = s.q.opset < 13;  // everything from the axis on was one dimension
  const auto axis = static_cast<std::int64_t>(axis_of(s.q, flattens ? 1 : -1, rank));
  require(!flattens || axis == rank - 1, "the device computes it along one dimension (opset 13)");
  return numbered(s, axis);
}

bool keeps(const setting& s) {
  return attribute_or<std::int64_t>(s.q, "keepdims", 1) != 0;
}
std::vector<std::int64_t> axes_of(const setting& s) {
  const auto axes = reduced_axes(s.q);
  return {axes.begin(), axes.end()};
}
asking sum(setting& s) {
  return reducing_to_type(s, axes_of(s), keeps(s));
}
asking extreme(setting& s) {
  return reducing(s, axes_of(s), keeps(s));
}
asking index_of_extreme(setting& s) {
  require(attribute_or<std::int64_t>(s.q, "select_last_index", 0) == 0, "the device takes the first of equals");
  const auto axis = static_cast<std::int64_t>(axis_of(s.q, 0, static_cast<std::int64_t>(s.rank())));
  return asks(s, in{0}, axis, keeps(s), out{1});
}

asking cumulate(setting& s) {
  const bool usual =
      attribute_or<std::int64_t>(s.q, "exclusive", 0) == 0 && attribute_or<std::int64_t>(s.q, "reverse", 0) == 0;
  require(usual, "the device sums forwards, the element included");
  return asks(s, in{0}, integers(s.q, 1).at(0), data_type(s.outputs[0].type), out{1});
}

asking top(setting& s) {
  require(s.outputs.size() == 2, "the device gives values and indices");
  const auto axis = attribute_or<std::int64_t>(s.q, "axis", -1);
  const bool largest = attribute_or<std::int64_t>(s.q, "largest", 1) != 0,
             sorted = attribute_or<std::int64_t>(s.q, "sorted", 1) != 0;
  return asks(s, in{0}, integers(s.q, 1).at(0), axis, largest, sorted, out{1}, out{2});
}

asking layer_norm(setting& s) {
  require(s.outputs.size() == 1 || s.outputs.size() == 3, "the device gives mean and deviation both or neither");
  const shape& whole = shape_of(s.q, 0);
  const std::size_t axis = axis_of(s.q, -1, static_cast<std::int64_t>(whole.size()));
  const shape normalized(whole.begin() + static_cast<std::ptrdiff_t>(axis), whole.end());
  require(shape_of(s.q, 1) == normalized, "the device's scale has the shape that is normalised");
  const bool statistics = s.outputs.size() == 3;
  return asks(s, in{0}, array_of(s, normalized), in{1}, in{has(s.q, 2) ? 2 : nothing},
              static_cast<double>(attribute_or<float>(s.q, "epsilon", 1e-5F)), out{s.given},
              out{statistics ? s.given + 1 : nothing}, out{statistics ? s.given + 2 : nothing});
}

// Asks for y, and for the inverse of each root: aclnn wants a place for it, and it is not read.
asking rms_norm(setting& s) {
  require(s.outputs.size() == 1, "the device gives one result");
  const shape& whole = shape_of(s.q, 0);
  const auto axis = static_cast<std::ptrdiff_t>(axis_of(s.q, -1, static_cast<std::int64_t>(whole.size())));
  require(shape_of(s.q, 1) == shape(whole.begin() + axis, whole.end()),
          "the device's scale has the shape that is normalised");
  shape rows = whole;
  std::fill(rows.begin() + axis, rows.end(), 1);
  s.how.types.push_back(dense(element::f32, std::move(rows)));
  return asks(s, in{0}, in{1}, static_cast<double>(attribute_or<float>(s.q, "epsilon", 1e-5F)), in{2}, in{3});
}

// Asks with given statistics; the results of training have no place.
asking batch_norm(setting& s) {
  require(s.outputs.size() == 1, "the device gives one result");
  constexpr bool trains = false;
  constexpr double momentum = 0;
  return asks(s, in{0}, in{1}, in{2}, out{3}, out{4}, trains, momentum,
              static_cast<double>(attribute_or<float>(s.q, "epsilon", 1e-5F)), out{5}, out{nothing}, out{nothing});
}

constexpr row dimension_table[] = {
    {"ArgMax", nullptr, index_of_extreme},
    {"ArgMin", nullptr, index_of_extreme},
    {"BatchNormalization", "aclnnBatchNorm", batch_norm},
    {"CumSum", "aclnnCumsum", cumulate},
    {"LayerNormalization", "aclnnLayerNorm", layer_norm},
    {"LogSoftmax", nullptr, softmax},
    {"RMSNormalization", "aclnnRmsNorm", rms_norm},
    {"ReduceMax", "aclnnAmax", extreme},
    {"ReduceMean", "aclnnMean", sum},
    {"ReduceMin", "aclnnAmin", extreme},
    {"ReduceSum", nullptr, sum},
    {"Softmax", nullptr, softmax},
    {"TopK", "aclnnTopk", top},
};

}  // namespace

const rows dimension_rows{dimension_table};

}  // namespace berth::op::ascend
