#include "op/shapes.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string_view>

namespace berth::op {

std::size_t axis_of(std::int64_t axis, std::int64_t rank) {
  const std::int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) {
    refuse("axis " + std::to_string(axis) + " is out of range" + (rank == 0 ? ": a scalar has none" : ""));
  }
  return static_cast<std::size_t>(from_front);
}

std::size_t axis_of(const request& q, std::int64_t fallback, std::int64_t rank) {
  return axis_of(attribute_or<std::int64_t>(q, "axis", fallback), rank);
}

shape broadcast(const shape& a, const shape& b) {
  shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) refuse("shapes " + text_of(a) + " and " + text_of(b) + " do not broadcast");
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::size_t trailing_ones(const request& q) {
  if (q.opset >= 7 || !has(q, 0) || !has(q, 1)) return 0;
  const std::size_t of_a = shape_of(q, 0).size(), of_b = shape_of(q, 1).size();
  if (q.op == "PRelu") return of_b == 1 && of_a > 2 ? of_a - 2 : 0;
  constexpr std::array<std::string_view, 11> with_axis{"Add", "And", "Div", "Equal", "Greater", "Less",
                                                       "Mul", "Or",  "Pow", "Sub",   "Xor"};
  if (std::find(with_axis.begin(), with_axis.end(), q.op) == with_axis.end()) return 0;
  if (of_b == 0 || !q.attributes.contains("axis") || attribute_or<std::int64_t>(q, "broadcast", 0) == 0) return 0;
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0));
  if (axis + of_b > of_a) refuse("input 1 does not fit into input 0 from axis " + std::to_string(axis) + " on");
  return of_a - axis - of_b;
}

shape concatenated(const request& q) {
  if (q.inputs.empty()) refuse("has no inputs");
  shape result = shape_of(q, 0);
  const std::size_t axis = axis_of(q, q.opset < 4 ? 1 : 0, rank_of(q, 0));
  for (std::size_t i = 1; i < q.inputs.size(); ++i) {
    const shape& next = shape_of(q, i);
    for (std::size_t d = 0; d < result.size(); ++d) {
      if (next.size() != result.size() || (d != axis && next[d] != result[d])) {
        refuse("shapes " + text_of(result) + " and " + text_of(next) + " do not concatenate");
      }
    }
    result[axis] += next[axis];
  }
  return result;
}

namespace {

shape flattened(const request& q, const shape& from) {
  const std::int64_t rank = rank_of(q, 0);
  const auto given = attribute_or<std::int64_t>(q, "axis", 1);
  const std::size_t axis = given == rank ? static_cast<std::size_t>(rank) : axis_of(given, rank);
  shape to{1, 1};
  for (std::size_t d = 0; d < from.size(); ++d) to[d < axis ? 0 : 1] *= from[d];
  return to;
}

shape squeezed(const request& q, const shape& from) {
  std::set<std::size_t> axes;
  for (const std::int64_t a : list(q, "axes", 1)) axes.insert(axis_of(a, rank_of(q, 0)));
  shape to;
  for (std::size_t d = 0; d < from.size(); ++d) {
    const bool drop = axes.empty() ? from[d] == 1 : axes.contains(d);
    if (drop && from[d] != 1) {
      refuse("axis " + std::to_string(d) + " is squeezed, but is " + std::to_string(from[d]) + " long");
    }
    if (!drop) to.push_back(from[d]);
  }
  return to;
}

shape unsqueezed(const request& q, const shape& from) {
  const auto given = list(q, "axes", 1);
  const std::size_t rank = from.size() + given.size();
  std::set<std::size_t> axes;
  for (const std::int64_t a : given) axes.insert(axis_of(a, static_cast<std::int64_t>(rank)));
  shape to;
  auto next = from.begin();
  for (std::size_t d = 0; d < rank; ++d) {
    if (!axes.contains(d) && next == from.end()) refuse("axes are named twice");
    to.push_back(axes.contains(d) ? 1 : *next++);
  }
  return to;
}

shape asked_for(const request& q, const shape& from, std::int64_t count) {
  shape to = list(q, "shape", 1);
  const bool zero_is_zero = attribute_or<std::int64_t>(q, "allowzero", 0) != 0;
  std::size_t open = to.size();
  std::int64_t known = 1;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 0 && !zero_is_zero && d < from.size()) to[d] = from[d];
    if (to[d] == -1 && open == to.size()) {
      open = d;
    } else if (to[d] < 0 || __builtin_mul_overflow(known, to[d], &known)) {
      refuse("the shape asked for is not one: " + text_of(to));
    }
  }
  if (open != to.size()) to[open] = known == 0 ? 0 : count / known;
  return to;
}

}  // namespace

shape reshaped(const request& q) {
  const shape& from = shape_of(q, 0);
  const std::int64_t count = count_of(from);
  shape to = from;
  if (q.op == "Flatten") to = flattened(q, from);
  if (q.op == "Squeeze") to = squeezed(q, from);
  if (q.op == "Unsqueeze") to = unsqueezed(q, from);
  if (q.op == "Reshape") to = asked_for(q, from, count);
  if (count_of(to) != count) refuse("cannot reshape " + text_of(from) + " to " + text_of(to));
  return to;
}

std::vector<std::size_t> permutation(const request& q) {
  const std::size_t rank = shape_of(q, 0).size();
  shape reversed;
  for (std::size_t d = rank; d-- > 0;) reversed.push_back(static_cast<std::int64_t>(d));
  const shape order = attribute_or(q, "perm", reversed);
  shape sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::reverse(reversed.begin(), reversed.end());
  if (sorted != reversed) refuse("perm is not a permutation of the input's dimensions");
  return {order.begin(), order.end()};
}

slicing sliced(const request& q) {
  const shape& from = shape_of(q, 0);
  const auto starts = list(q, "starts", 1);
  const auto ends = list(q, "ends", 2);
  auto axes = list(q, "axes", 3);
  auto steps = list(q, "steps", 4);
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    refuse("starts, ends, axes and steps differ in length");
  }
  slicing s{from, shape(from.size(), 0), shape(from.size(), 1)};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t d = axis_of(axes[i], rank_of(q, 0));
    const std::int64_t size = from[d];
    if (steps[i] == 0) refuse("a step of 0");
    const bool back = steps[i] < 0;
    const std::int64_t low = back ? -1 : 0, high = back ? size - 1 : size;
    const auto clamped = [&](std::int64_t v) { return std::clamp<std::int64_t>(v < 0 ? v + size : v, low, high); };
    const std::int64_t first = size == 0 ? 0
                               : back    ? std::max<std::int64_t>(clamped(starts[i]), 0)
                                         : clamped(starts[i]);
    const std::int64_t longest = std::max<std::int64_t>(size, 1);  // a longer step takes the first element too
    s.start[d] = first;
    s.step[d] = std::clamp(steps[i], -longest, longest);
    const std::int64_t length = back ? first - clamped(ends[i]) : clamped(ends[i]) - first;
    s.result[d] = length <= 0 || size == 0 ? 0 : (length - 1) / std::abs(s.step[d]) + 1;
  }
  return s;
}

std::vector<std::int64_t> split_sizes(const request& q) {
  const shape& from = shape_of(q, 0);
  const std::size_t axis = axis_of(q, 0, rank_of(q, 0));
  auto sizes = list(q, "split", 1, q.outputs);
  const auto parts = static_cast<std::int64_t>(q.outputs);
  const bool counted = q.attributes.contains("num_outputs");  // the last part may be shorter
  if (const auto said = attribute_or(q, "num_outputs", parts); said != parts) {
    refuse("num_outputs is " + std::to_string(said) + ", but it has " + std::to_string(parts) + " results");
  }
  if (sizes.empty()) {
    if (!counted && from[axis] % parts != 0) refuse("the axis does not split evenly");
    const std::int64_t each = (from[axis] + parts - 1) / parts;
    for (std::int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<std::int64_t>(from[axis] - i * each, 0, each));
  }
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > from[axis]) refuse("a part is larger than the axis");
    total += size;
  }
  if (sizes.size() != q.outputs || total != from[axis]) refuse("the parts do not add up to the axis");
  return sizes;
}

std::vector<std::size_t> reduced_axes(const request& q, std::size_t axes_input) {
  std::set<std::size_t> axes;
  for (const std::int64_t a : list(q, "axes", axes_input)) axes.insert(axis_of(a, rank_of(q, 0)));
  if (axes.empty() && attribute_or<std::int64_t>(q, "noop_with_empty_axes", 0) == 0) {
    for (std::size_t d = 0; d < shape_of(q, 0).size(); ++d) axes.insert(d);
  }
  return {axes.begin(), axes.end()};
}

shape reduced(const shape& from, const std::vector<std::size_t>& axes, bool keep) {
  shape to = from;
  for (const std::size_t a : axes) to[a] = 1;
  for (std::size_t i = axes.size(); !keep && i-- > 0;) to.erase(to.begin() + static_cast<std::ptrdiff_t>(axes[i]));
  return to;
}

std::vector<std::int64_t> paddings(const request& q) {
  const std::size_t rank = shape_of(q, 0).size();
  const char* name = q.opset < 2 ? "paddings" : "pads";
  const auto pads = list(q, name, 1);
  std::vector<std::int64_t> all = pads;
  if (has(q, 3)) {  // only of these axes
    const auto axes = integers(q, 3, most_rank);
    if (pads.size() != 2 * axes.size()) refuse("pads has not two entries per axis");
    all.assign(2 * rank, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::size_t d = axis_of(axes[i], rank_of(q, 0));
      all[d] = pads[i];
      all[d + rank] = pads[i + axes.size()];
    }
  }
  if (all.size() != 2 * rank) refuse("pads has not two entries per dimension");
  for (const std::int64_t p : all) {
    constexpr std::int64_t most = std::int64_t{1} << 40;
    if (p < -most || p > most) refuse("padding " + std::to_string(p) + " is out of range");
  }
  return all;
}

window window_of(const request& q, const shape& from, shape kernel) {
  if (from.size() < 3) refuse("needs spatial dimensions");
  const std::size_t spatial = from.size() - 2;
  const auto declared = attribute_or(q, "kernel_shape", kernel);
  if (kernel.empty()) kernel = declared;
  window w{kernel, attribute_or(q, "strides", shape(spatial, 1)), attribute_or(q, "dilations", shape(spatial, 1)),
           shape(spatial, 0), shape(spatial, 0)};
  const auto pads = attribute_or(q, "pads", shape(2 * spatial, 0));
  if (declared != kernel || kernel.size() != spatial || w.strides.size() != spatial || w.dilations.size() != spatial ||
      pads.size() != 2 * spatial) {
    refuse("kernel_shape, strides, dilations or pads do not fit the input's rank");
  }
  const auto sane = [&](const shape& s, std::int64_t least) {
    return std::all_of(s.begin(), s.end(), [&](std::int64_t v) { return v >= least && v < most_extent; });
  };
  if (!sane(kernel, 1) || !sane(w.strides, 1) || !sane(w.dilations, 1) || !sane(pads, 0)) {
    refuse("kernel_shape, strides, dilations or pads are out of range");
  }
  const auto automatic = attribute_or<std::string>(q, "auto_pad", "NOTSET");
  for (std::size_t i = 0; i < spatial; ++i) {
    if (automatic == "NOTSET") {
      w.pads_begin[i] = pads[i];
      w.pads_end[i] = pads[i + spatial];
    } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const std::int64_t steps = (from[i + 2] + w.strides[i] - 1) / w.strides[i];
      const std::int64_t reach = (kernel[i] - 1) * w.dilations[i] + 1;
      const std::int64_t total = std::max<std::int64_t>((steps - 1) * w.strides[i] + reach - from[i + 2], 0);
      w.pads_begin[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pads_end[i] = total - w.pads_begin[i];
    } else if (automatic != "VALID") {
      refuse("auto_pad '" + automatic + "' is not one");
    }
  }
  return w;
}

shape windowed(const request& q, const shape& from, std::int64_t channels, const window& w) {
  const bool ceil = attribute_or<std::int64_t>(q, "ceil_mode", 0) != 0;
  shape to{from[0], channels};
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const std::int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    const std::int64_t room = from[i + 2] + w.pads_begin[i] + w.pads_end[i] - reach;
    if (room < 0) refuse("the window is larger than its input (" + text_of(from) + ")");
    std::int64_t steps = (room + (ceil ? w.strides[i] - 1 : 0)) / w.strides[i] + 1;
    // No window that rounding up adds begins in the padding at the end, as in ONNX (since 1.17), ONNX Runtime, PyTorch.
    if (ceil && (steps - 1) * w.strides[i] >= from[i + 2] + w.pads_begin[i]) --steps;
    to.push_back(steps);
  }
  return to;
}

// As NumPy has it: a vector on the left is a row, on the right a column.
shape product(const shape& a, const shape& b) {
  if (a.empty() || b.empty()) refuse("a matrix product of scalars");
  const std::int64_t inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (a.back() != inner) refuse("shapes " + text_of(a) + " and " + text_of(b) + " do not multiply");
  shape result = broadcast({a.begin(), a.end() - std::min<std::ptrdiff_t>(2, std::ssize(a))},
                           {b.begin(), b.end() - std::min<std::ptrdiff_t>(2, std::ssize(b))});
  if (a.size() > 1) result.push_back(a[a.size() - 2]);
  if (b.size() > 1) result.push_back(b.back());
  return result;
}

}  // namespace berth::op
