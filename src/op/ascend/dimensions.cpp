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
  return [f = s.first, axis = static_cast<std::int64_t>(axis_of(s.q, 0, static_cast<std::int64_t>(s.rank()))),
          keep = keeps(s)](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, bool, tensor_handle*, sizes, made>(f, t[0], axis, keep, t[1], w,
                                                                                           e);
  };
}

asking cumulate(setting& s) {
  const bool usual =
      attribute_or<std::int64_t>(s.q, "exclusive", 0) == 0 && attribute_or<std::int64_t>(s.q, "reverse", 0) == 0;
  require(usual, "the device sums forwards, the element included");
  return [f = s.first, axis = integers(s.q, 1).at(0), type = data_type(s.outputs[0].type)](
             tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, int, tensor_handle*, sizes, made>(f, t[0], axis, type, t[1], w,
                                                                                          e);
  };
}

asking top(setting& s) {
  require(s.outputs.size() == 2, "the device gives values and indices");
  return [f = s.first, k = integers(s.q, 1).at(0), axis = attribute_or<std::int64_t>(s.q, "axis", -1),
          largest = attribute_or<std::int64_t>(s.q, "largest", 1) != 0,
          sorted = attribute_or<std::int64_t>(s.q, "sorted", 1) != 0](tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, std::int64_t, std::int64_t, bool, bool, tensor_handle*, tensor_handle*, sizes,
                    made>(f, t[0], k, axis, largest, sorted, t[1], t[2], w, e);
  };
}

asking layer_norm(setting& s) {
  require(s.outputs.size() == 1 || s.outputs.size() == 3, "the device gives mean and deviation both or neither");
  const shape& whole = shape_of(s.q, 0);
  const std::size_t axis = axis_of(s.q, -1, static_cast<std::int64_t>(whole.size()));
  const shape normalized(whole.begin() + static_cast<std::ptrdiff_t>(axis), whole.end());
  require(shape_of(s.q, 1) == normalized, "the device's scale has the shape that is normalised");
  return [f = s.first, normalized = array_of(s, normalized), shift = has(s.q, 2), given = s.given,
          results = s.outputs.size(), epsilon = static_cast<double>(attribute_or<float>(s.q, "epsilon", 1e-5F))](
             tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const array_handle*, const tensor_handle*, const tensor_handle*, double,
                    tensor_handle*, tensor_handle*, tensor_handle*, sizes, made>(
        f, t[0], normalized.get(), t[1], shift ? t[2] : nullptr, epsilon, t[given],
        results == 3 ? t[given + 1] : nullptr, results == 3 ? t[given + 2] : nullptr, w, e);
  };
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
  return [f = s.first, epsilon = static_cast<double>(attribute_or<float>(s.q, "epsilon", 1e-5F))](
             tensors t, const list_handle*, sizes w, made e) {
    return asked_of<const tensor_handle*, const tensor_handle*, double, const tensor_handle*, const tensor_handle*,
                    sizes, made>(f, t[0], t[1], epsilon, t[2], t[3], w, e);
  };
}

// Asks with given statistics; the results of training have no place.
asking batch_norm(setting& s) {
  require(s.outputs.size() == 1, "the device gives one result");
  return [f = s.first, epsilon = static_cast<double>(attribute_or<float>(s.q, "epsilon", 1e-5F))](
             tensors t, const list_handle*, sizes w, made e) {
    constexpr bool trains = false;
    constexpr double momentum = 0;
    return asked_of<const tensor_handle*, const tensor_handle*, const tensor_handle*, tensor_handle*, tensor_handle*,
                    bool, double, double, tensor_handle*, tensor_handle*, tensor_handle*, sizes, made>(
        f, t[0], t[1], t[2], t[3], t[4], trains, momentum, epsilon, t[5], nullptr, nullptr, w, e);
  };
}

constexpr row dimension_table[] = {
    {"ArgMax", "aclnnArgMax", index_of_extreme},
    {"ArgMin", "aclnnArgMin", index_of_extreme},
    {"BatchNormalization", "aclnnBatchNorm", batch_norm},
    {"CumSum", "aclnnCumsum", cumulate},
    {"LayerNormalization", "aclnnLayerNorm", layer_norm},
    {"LogSoftmax", "aclnnLogSoftmax", softmax},
    {"RMSNormalization", "aclnnRmsNorm", rms_norm},
    {"ReduceMax", "aclnnAmax", extreme},
    {"ReduceMean", "aclnnMean", sum},
    {"ReduceMin", "aclnnAmin", extreme},
    {"ReduceSum", "aclnnReduceSum", sum},
    {"Softmax", "aclnnSoftmax", softmax},
    {"TopK", "aclnnTopk", top},
};

}  // namespace

extern const rows dimension_rows;
const rows dimension_rows{dimension_table};

}  // namespace berth::op::ascend
