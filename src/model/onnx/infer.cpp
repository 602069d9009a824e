#include "model/onnx/infer.hpp"

#include <algorithm>
#include <set>

#include "berth/model/input_error.hpp"
#include "model/onnx/fold.hpp"

namespace berth::model {

namespace {

[[noreturn]] void fail(const description& m, const node& n, const std::string& what) {
  throw input_error(m.source, called(n) + ": " + what);
}

// An integer list that is an attribute in some opsets and an input in others; empty where it is neither. `most`: the
// longest that can be right; each node that names a constant would copy it.
std::vector<std::int64_t> list(const description& m, const node& n, const char* attribute, const constant_input& input,
                               std::size_t index, std::size_t most = 2 * most_rank) {
  if (n.attributes.contains(attribute)) return attribute_or(m, n, attribute, std::vector<std::int64_t>{});
  if (index >= n.inputs.size() || n.inputs[index].empty()) return {};
  const tensor* t = input(index);
  if (t == nullptr) fail(m, n, "input '" + n.inputs[index] + "' is computed at run time; only constants are supported");
  if (t->data.size() / sizeof(std::int64_t) > most) {
    fail(m, n, "input '" + n.inputs[index] + "' has more than " + std::to_string(most) + " entries");
  }
  return integers(m, called(n) + ", input '" + n.inputs[index] + "'", *t);
}

shape windowed(const description& m, const node& n, const shape& from, std::int64_t channels, const op::window& w) {
  const bool ceil = attribute_or<std::int64_t>(m, n, "ceil_mode", 0) != 0;
  shape to{from[0], channels};
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const std::int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    const std::int64_t room = from[i + 2] + w.pads_begin[i] + w.pads_end[i] - reach;
    if (room < 0) fail(m, n, "the window is larger than its input (" + text_of(from) + ")");
    to.push_back((room + (ceil ? w.strides[i] - 1 : 0)) / w.strides[i] + 1);
  }
  return to;
}

shape product(const description& m, const node& n, const shape& a, const shape& b) {
  if (a.size() < 2 || b.size() < 2) fail(m, n, "matrix products of vectors are not supported");
  if (a.back() != b[b.size() - 2]) fail(m, n, "shapes " + text_of(a) + " and " + text_of(b) + " do not multiply");
  shape result = broadcast(m, n, {a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  result.push_back(a[a.size() - 2]);
  result.push_back(b.back());
  return result;
}

// The shapes of n's outputs from those of its inputs.
class rule_book {
 public:
  rule_book(const description& m, const node& n, std::vector<shape> inputs, constant_input constant)
      : m_{m}, n_{n}, inputs_{std::move(inputs)}, constant_{std::move(constant)} {}

  std::vector<shape> outputs() const {
    static const std::set<std::string, std::less<>> unary{"Relu",
                                                          "LeakyRelu",
                                                          "Sigmoid",
                                                          "Tanh",
                                                          "Clip",
                                                          "HardSwish",
                                                          "Elu",
                                                          "Gelu",
                                                          "Exp",
                                                          "Log",
                                                          "Sqrt",
                                                          "Abs",
                                                          "Identity",
                                                          "Dropout",
                                                          "Softmax",
                                                          "Neg",
                                                          "BatchNormalization",
                                                          "LayerNormalization"};
    static const std::set<std::string, std::less<>> binary{"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"};
    static const std::set<std::string, std::less<>> reshaping{"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
    const std::string& op = n_.op;
    if (op == "BatchNormalization" && at(0).size() < 2) fail(m_, n_, "needs a dimension of channels");
    if (unary.contains(op)) return {at(0)};
    if (binary.contains(op)) return {broadcast(m_, n_, at(0), at(1))};
    if (reshaping.contains(op)) return {reshaped(m_, n_, at(0), constant_)};
    if (op == "Conv") return {convolution()};
    if (op == "MaxPool" || op == "AveragePool") {
      const op::window w = window_of(m_, n_, at(0), {});
      return {windowed(m_, n_, at(0), at(0)[1], w)};
    }
    if (op == "GlobalAveragePool") {
      if (at(0).size() < 3) fail(m_, n_, "needs spatial dimensions");
      shape to(at(0).size(), 1);
      std::copy_n(at(0).begin(), 2, to.begin());
      return {to};
    }
    if (op == "MatMul") return {product(m_, n_, at(0), at(1))};
    if (op == "Gemm") return {gemm()};
    if (op == "Concat") {
      for (std::size_t i = 0; i < inputs_.size(); ++i) (void)at(i);
      return {concatenated(m_, n_, inputs_)};
    }
    if (op == "Transpose") return {transposed()};
    if (op == "Slice") return {sliced(m_, n_, at(0), constant_).result};
    if (op == "Split") return split();
    if (op == "ReduceMean") return {reduced()};
    if (op == "Pad") return {padded()};
    fail(m_, n_, "the operator has no kernel here");
  }

 private:
  const shape& at(std::size_t i) const {
    if (i >= inputs_.size() || n_.inputs[i].empty()) fail(m_, n_, "input " + std::to_string(i) + " is missing");
    return inputs_[i];
  }

  shape convolution() const {
    const shape& x = at(0);
    const shape& w = at(1);
    if (x.size() < 3 || x.size() != w.size()) fail(m_, n_, "input and weights are not of one rank of 3 or more");
    const auto groups = attribute_or<std::int64_t>(m_, n_, "group", 1);
    if (groups < 1 || groups > most_extent || w[1] * groups != x[1] || w[0] % groups != 0) {
      fail(m_, n_,
           "weights " + text_of(w) + " do not fit input " + text_of(x) + " in " + std::to_string(groups) + " groups");
    }
    return windowed(m_, n_, x, w[0], window_of(m_, n_, x, {w.begin() + 2, w.end()}));
  }

  shape gemm() const {
    shape a = at(0), b = at(1);
    if (a.size() != 2 || b.size() != 2) fail(m_, n_, "inputs are not matrices");
    if (attribute_or<std::int64_t>(m_, n_, "transA", 0) != 0) std::swap(a[0], a[1]);
    if (attribute_or<std::int64_t>(m_, n_, "transB", 0) != 0) std::swap(b[0], b[1]);
    return product(m_, n_, a, b);
  }

  shape transposed() const {
    const shape& x = at(0);
    shape reversed;
    for (std::size_t d = x.size(); d-- > 0;) reversed.push_back(static_cast<std::int64_t>(d));
    const shape order = attribute_or(m_, n_, "perm", reversed);
    shape sorted = order;
    std::sort(sorted.begin(), sorted.end());
    std::reverse(reversed.begin(), reversed.end());
    if (sorted != reversed) fail(m_, n_, "perm is not a permutation of the input's dimensions");
    shape to;
    for (const std::int64_t d : order) to.push_back(x[static_cast<std::size_t>(d)]);
    return to;
  }

  std::vector<shape> split() const {
    const auto axis = static_cast<std::size_t>(
        axis_of(m_, n_, attribute_or<std::int64_t>(m_, n_, "axis", 0), static_cast<std::int64_t>(at(0).size())));
    std::vector<shape> parts;
    for (const std::int64_t size : split_sizes(m_, n_, at(0), constant_)) {
      parts.push_back(at(0));
      parts.back()[axis] = size;
    }
    return parts;
  }

  shape reduced() const {
    shape to = at(0);
    const auto axes = reduced_axes(m_, n_, to, constant_);
    for (const std::int64_t a : axes) to[static_cast<std::size_t>(a)] = 1;
    if (attribute_or<std::int64_t>(m_, n_, "keepdims", 1) == 0) {
      for (std::size_t i = axes.size(); i-- > 0;) to.erase(to.begin() + static_cast<std::ptrdiff_t>(axes[i]));
    }
    return to;
  }

  shape padded() const {
    shape to = at(0);
    const auto pads = paddings(m_, n_, to, constant_);
    for (std::size_t d = 0; d < to.size(); ++d) to[d] += pads[d] + pads[d + to.size()];
    return to;
  }

  const description& m_;
  const node& n_;
  std::vector<shape> inputs_;
  constant_input constant_;
};

// Drops nodes whose results nobody reads, from the back.
void drop_unused(description& m) {
  std::set<std::string> used(m.outputs.begin(), m.outputs.end());
  std::vector<node> kept;
  for (std::size_t i = m.nodes.size(); i-- > 0;) {
    node& n = m.nodes[i];
    if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](const auto& o) { return used.contains(o); })) continue;
    used.insert(n.inputs.begin(), n.inputs.end());
    used.erase("");  // an input left out is no result left out
    kept.push_back(std::move(n));
  }
  std::reverse(kept.begin(), kept.end());
  m.nodes = std::move(kept);
}

}  // namespace

std::int64_t axis_of(const description& m, const node& n, std::int64_t axis, std::int64_t rank) {
  const std::int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) {
    fail(m, n, "axis " + std::to_string(axis) + " is out of range" + (rank == 0 ? ": a scalar has none" : ""));
  }
  return from_front;
}

shape broadcast(const description& m, const node& n, const shape& a, const shape& b) {
  shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) fail(m, n, "shapes " + text_of(a) + " and " + text_of(b) + " do not broadcast");
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

shape concatenated(const description& m, const node& n, const std::vector<shape>& inputs) {
  if (inputs.empty()) fail(m, n, "has no inputs");
  shape result = inputs.front();
  const auto axis = static_cast<std::size_t>(
      axis_of(m, n, attribute_or<std::int64_t>(m, n, "axis", 0), static_cast<std::int64_t>(result.size())));
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    for (std::size_t d = 0; d < result.size(); ++d) {
      if (inputs[i].size() != result.size() || (d != axis && inputs[i][d] != result[d])) {
        fail(m, n, "shapes " + text_of(result) + " and " + text_of(inputs[i]) + " do not concatenate");
      }
    }
    result[axis] += inputs[i][axis];
  }
  return result;
}

shape reshaped(const description& m, const node& n, const shape& from, const constant_input& input) {
  const auto rank = static_cast<std::int64_t>(from.size());
  const std::int64_t count = element_count(m, called(n), from);
  shape to;
  if (n.op == "Flatten") {
    const auto given = attribute_or<std::int64_t>(m, n, "axis", 1);
    const auto axis = given == rank ? rank : axis_of(m, n, given, rank);
    to = {1, 1};
    for (std::int64_t d = 0; d < rank; ++d) to[d < axis ? 0 : 1] *= from[static_cast<std::size_t>(d)];
  } else if (n.op == "Squeeze") {
    std::set<std::int64_t> axes;
    for (const std::int64_t a : list(m, n, "axes", input, 1)) axes.insert(axis_of(m, n, a, rank));
    for (std::int64_t d = 0; d < rank; ++d) {
      const bool drop = axes.empty() ? from[static_cast<std::size_t>(d)] == 1 : axes.contains(d);
      if (!drop) to.push_back(from[static_cast<std::size_t>(d)]);
    }
  } else if (n.op == "Unsqueeze") {
    const auto given = list(m, n, "axes", input, 1);
    const auto result_rank = rank + static_cast<std::int64_t>(given.size());
    std::set<std::int64_t> axes;
    for (const std::int64_t a : given) axes.insert(axis_of(m, n, a, result_rank));
    auto next = from.begin();
    for (std::int64_t d = 0; d < result_rank; ++d) {
      if (!axes.contains(d) && next == from.end()) fail(m, n, "axes are named twice");
      to.push_back(axes.contains(d) ? 1 : *next++);
    }
  } else {
    to = list(m, n, "shape", input, 1);
    const bool zero_is_zero = attribute_or<std::int64_t>(m, n, "allowzero", 0) != 0;
    std::size_t open = to.size();
    std::int64_t known = 1;
    for (std::size_t d = 0; d < to.size(); ++d) {
      if (to[d] == 0 && !zero_is_zero && d < from.size()) to[d] = from[d];
      if (to[d] == -1 && open == to.size()) {
        open = d;
      } else if (to[d] < 0 || __builtin_mul_overflow(known, to[d], &known)) {
        fail(m, n, "the shape asked for is not one: " + text_of(to));
      }
    }
    if (open != to.size()) to[open] = known == 0 ? 0 : count / known;
  }
  if (element_count(m, called(n), to) != count) {
    fail(m, n, "cannot reshape " + text_of(from) + " to " + text_of(to));
  }
  return to;
}

slicing sliced(const description& m, const node& n, const shape& from, const constant_input& input) {
  const auto starts = list(m, n, "starts", input, 1);
  const auto ends = list(m, n, "ends", input, 2);
  auto axes = list(m, n, "axes", input, 3);
  auto steps = list(m, n, "steps", input, 4);
  if (axes.empty()) {
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    fail(m, n, "starts, ends, axes and steps differ in length");
  }
  slicing s{from, std::vector<std::int64_t>(from.size(), 0), std::vector<std::int64_t>(from.size(), 1)};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto d = static_cast<std::size_t>(axis_of(m, n, axes[i], static_cast<std::int64_t>(from.size())));
    const std::int64_t size = from[d];
    if (steps[i] <= 0) fail(m, n, "steps below 1 are not supported");
    const auto clamped = [size](std::int64_t v) { return std::clamp<std::int64_t>(v < 0 ? v + size : v, 0, size); };
    s.start[d] = clamped(starts[i]);
    s.step[d] = std::min(steps[i], std::max<std::int64_t>(size, 1));  // a longer one takes the first element too
    const std::int64_t length = std::max<std::int64_t>(clamped(ends[i]) - s.start[d], 0);
    s.result[d] = length == 0 ? 0 : (length - 1) / s.step[d] + 1;
  }
  return s;
}

std::vector<std::int64_t> split_sizes(const description& m, const node& n, const shape& from,
                                      const constant_input& input) {
  const auto axis = static_cast<std::size_t>(
      axis_of(m, n, attribute_or<std::int64_t>(m, n, "axis", 0), static_cast<std::int64_t>(from.size())));
  auto sizes = list(m, n, "split", input, 1, n.outputs.size());
  const auto parts = static_cast<std::int64_t>(n.outputs.size());
  if (sizes.empty()) {
    if (from[axis] % parts != 0) fail(m, n, "the axis does not split evenly");
    sizes.assign(n.outputs.size(), from[axis] / parts);
  }
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > from[axis]) fail(m, n, "a part is larger than the axis");
    sum += size;
  }
  if (sizes.size() != n.outputs.size() || sum != from[axis]) fail(m, n, "the parts do not add up to the axis");
  return sizes;
}

std::vector<std::int64_t> reduced_axes(const description& m, const node& n, const shape& from,
                                       const constant_input& input) {
  const auto rank = static_cast<std::int64_t>(from.size());
  std::set<std::int64_t> axes;
  for (const std::int64_t a : list(m, n, "axes", input, 1)) axes.insert(axis_of(m, n, a, rank));
  if (axes.empty()) {
    for (std::int64_t d = 0; d < rank; ++d) axes.insert(d);
  }
  return {axes.begin(), axes.end()};
}

std::vector<std::int64_t> paddings(const description& m, const node& n, const shape& from,
                                   const constant_input& input) {
  if (attribute_or<std::string>(m, n, "mode", "constant") != "constant")
    fail(m, n, "only constant padding is supported");
  const auto pads = list(m, n, "pads", input, 1);
  if (pads.size() != 2 * from.size()) fail(m, n, "pads has not two entries per dimension");
  for (const std::int64_t p : pads) {
    if (p < 0 || p > (std::int64_t{1} << 40)) fail(m, n, "padding " + std::to_string(p) + " is out of range");
  }
  return pads;
}

op::window window_of(const description& m, const node& n, const shape& from, shape kernel) {
  if (from.size() < 3) fail(m, n, "needs spatial dimensions");
  const std::size_t spatial = from.size() - 2;
  const auto declared = attribute_or(m, n, "kernel_shape", kernel);
  if (kernel.empty()) kernel = declared;
  op::window w{kernel, attribute_or(m, n, "strides", shape(spatial, 1)),
               attribute_or(m, n, "dilations", shape(spatial, 1)), shape(spatial, 0), shape(spatial, 0)};
  const auto pads = attribute_or(m, n, "pads", shape(2 * spatial, 0));
  if (declared != kernel || kernel.size() != spatial || w.strides.size() != spatial || w.dilations.size() != spatial ||
      pads.size() != 2 * spatial) {
    fail(m, n, "kernel_shape, strides, dilations or pads do not fit the input's rank");
  }
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const auto sane = [&](const shape& s, std::int64_t least) {
    return std::all_of(s.begin(), s.end(), [&](std::int64_t v) { return v >= least && v < most; });
  };
  if (!sane(kernel, 1) || !sane(w.strides, 1) || !sane(w.dilations, 1) || !sane(pads, 0)) {
    fail(m, n, "kernel_shape, strides, dilations or pads are out of range");
  }
  const auto automatic = attribute_or<std::string>(m, n, "auto_pad", "NOTSET");
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
      fail(m, n, "auto_pad '" + automatic + "' is not one");
    }
  }
  return w;
}

value_types infer(description& m, allowance& room) {
  value_types types;
  for (const value_info& v : m.inputs) types.emplace(v.name, v);
  for (const auto& [name, t] : m.constants) types.emplace(name, value_info{name, t.type, t.shape});
  const auto find_constant = [&m](const std::string& name) -> const tensor* {
    const auto found = m.constants.find(name);
    return found == m.constants.end() ? nullptr : &found->second;
  };

  std::vector<node> left;
  for (node& n : m.nodes) {
    std::vector<shape> shapes;
    std::vector<const tensor*> constants;
    for (const std::string& name : n.inputs) {
      const auto found = types.find(name);
      if (!name.empty() && found == types.end()) fail(m, n, "input '" + name + "' comes from no earlier node");
      shapes.push_back(name.empty() ? shape{} : found->second.shape);
      constants.push_back(name.empty() ? nullptr : find_constant(name));
    }
    if (n.outputs.empty()) fail(m, n, "has no outputs");
    std::optional<tensor> folded;
    if (n.op == "Shape" && shapes.size() == 1) {
      folded = integer_tensor({static_cast<std::int64_t>(shapes[0].size())}, shapes[0]);
    } else {
      folded = fold(m, n, constants, room);
    }
    if (folded) {
      (void)element_count(m, called(n), folded->shape);
      types.emplace(n.outputs[0], value_info{n.outputs[0], folded->type, folded->shape});
      m.constants.insert_or_assign(n.outputs[0], *std::move(folded));
      continue;
    }
    const rule_book rules{m, n, shapes, [&](std::size_t i) { return i < constants.size() ? constants[i] : nullptr; }};
    const std::vector<shape> results = rules.outputs();
    const element type = types.at(n.inputs.front()).type;
    for (std::size_t i = 0; i < n.outputs.size() && i < results.size(); ++i) {
      (void)element_count(m, called(n), results[i]);
      if (n.outputs[i].empty()) continue;
      types.insert_or_assign(n.outputs[i], value_info{n.outputs[i], type, results[i]});
    }
    left.push_back(std::move(n));
  }
  m.nodes = std::move(left);
  drop_unused(m);
  for (const std::string& name : m.outputs) {
    if (!types.contains(name)) throw input_error(m.source, "output '" + name + "' is computed by no node");
  }
  return types;
}

}  // namespace berth::model
