// Operators that move elements and compute nothing.
#include <algorithm>

#include "op/ascend/rows.hpp"

namespace berth::op::ascend {
namespace {

asking triangle(setting& s) {
  if (attribute_or<std::int64_t>(s.q, "upper", 1) == 0) take_functions(s, "aclnnTril");
  return numbered(s, has(s.q, 1) ? integers(s.q, 1).at(0) : 0);
}

asking permute(setting& s) {
  const auto order = permutation(s.q);
  return with_array(s, {order.begin(), order.end()});
}
asking expand(setting& s) {
  return with_array(s, s.outputs[0].shape);
}
asking tile(setting& s) {
  return with_array(s, integers(s.q, 1));
}

asking concatenate(setting& s) {
  s.how.listed = s.given;
  const auto axis = static_cast<std::int64_t>(axis_of(s.q, s.q.opset < 4 ? 1 : 0, static_cast<std::int64_t>(s.rank())));
  return asks(s, all_listed{}, axis, out{s.given});
}

asking slice(setting& s) {
  const slicing cut = sliced(s.q);
  std::vector<std::int64_t> ends, axes;
  for (std::size_t d = 0; d < cut.result.size(); ++d) {
    require(cut.step[d] > 0, "the device's steps go forwards");
    ends.push_back(cut.start[d] + (cut.result[d] - 1) * cut.step[d] + 1);
    axes.push_back(static_cast<std::int64_t>(d));
  }
  return asks(s, in{0}, array_of(s, cut.start), array_of(s, ends), array_of(s, axes), array_of(s, cut.step), out{1});
}

asking pad(setting& s) {
  require(attribute_or<std::string>(s.q, "mode", "constant") == "constant", "the device pads with one number");
  const auto pads = paddings(s.q);
  require(std::all_of(pads.begin(), pads.end(), [](std::int64_t p) { return p >= 0; }), "the device does not crop");
  std::vector<std::int64_t> inside_out;
  for (std::size_t d = s.rank(); d-- > 0;) inside_out.insert(inside_out.end(), {pads[d], pads[d + s.rank()]});
  const scalar value = has(s.q, 2) ? constant_of(s, 2) : scalar_of(s, attribute_or<float>(s.q, "value", 0));
  return asks(s, in{0}, array_of(s, inside_out), value, out{s.given});
}

asking gather(setting& s) {
  const auto axis = static_cast<std::int64_t>(axis_of(s.q, 0, static_cast<std::int64_t>(s.rank())));
  return asks(s, in{0}, axis, in{1}, out{2});
}

constexpr row shape_table[] = {
    {"Concat", "aclnnCat", concatenate}, {"Expand", nullptr, expand},
    {"Gather", "aclnnGatherV2", gather}, {"GatherElements", "aclnnGather", gather},
    {"Pad", "aclnnConstantPadNd", pad},  {"Slice", "aclnnSliceV2", slice},
    {"Tile", "aclnnRepeat", tile},       {"Transpose", "aclnnPermute", permute},
    {"Trilu", "aclnnTriu", triangle},
};

}  // namespace

const rows shape_rows{shape_table};

}  // namespace berth::op::ascend
