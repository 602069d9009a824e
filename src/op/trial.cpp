#include "op/trial.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

#include "op/plain/plain.hpp"

namespace berth::op {

namespace {

// splitmix64 (Steele, Lea and Flood 2014).
std::uint64_t next(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The numbers that an operand's elements are drawn from.
struct interval {
  double low = 0, high = 0;
};

// Returns the range of a type, as far as f64 says it; both ends are exact.
interval trial_limits_of(element type) {
  const auto of = []<class T>(T) -> interval {
    const double high = static_cast<double>(std::numeric_limits<T>::max());
    const bool beyond = std::is_integral_v<T> && sizeof(T) == 8;  // 2^64 - 1 is none of f64
    return {static_cast<double>(std::numeric_limits<T>::lowest()), beyond ? std::nextafter(high, 0.0) : high};
  };
  switch (type) {
    case element::f16: return {-65504, 65504};
    case element::bf16: return {-0x1.fep127, 0x1.fep127};
    case element::f32: return of(float{});
    case element::i8: return of(std::int8_t{});
    case element::u8: return of(std::uint8_t{});
    case element::i16: return of(std::int16_t{});
    case element::u16: return of(std::uint16_t{});
    case element::i32: return of(std::int32_t{});
    case element::u32: return of(std::uint32_t{});
    case element::i64: return of(std::int64_t{});
    case element::u64: return of(std::uint64_t{});
    default: return of(double{});
  }
}

interval range_of(element type, const check_options& o) {
  if (type == element::boolean) return {0, 1};
  const bool whole = !is_real(type);
  const interval limits = trial_limits_of(type);
  if (whole && o.low == -1 && o.high == 1) return {limits.low == 0 ? 0.0 : -8.0, 8};  // nobody said otherwise
  if (!(o.low >= limits.low) || !(o.high <= limits.high) || !(o.low <= o.high)) {
    std::array<char, 160> text;
    std::snprintf(text.data(), text.size(), "the range %g to %g is not one of %s, which holds %g to %g", o.low, o.high,
                  name(type), limits.low, limits.high);
    refuse(text.data());
  }
  if (whole && std::ceil(o.low) > std::floor(o.high)) refuse("no whole number lies in the range");
  return whole ? interval{std::ceil(o.low), std::floor(o.high)} : interval{o.low, o.high};
}

double made_up(std::uint64_t& state, element type, const interval& range, bool edges, std::int64_t limit) {
  const double unit = static_cast<double>(next(state) >> 11) * 0x1p-53;
  if (limit > 0) return std::floor(unit * static_cast<double>(limit));
  const bool whole = !is_real(type);
  const auto [low, high] = range;
  if (type != element::boolean && edges && next(state) % 16 == 0) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const double odd[] = {std::nan(""), inf, -inf, 0x1p-140, -0.0, low, high};
    return whole ? (next(state) % 2 == 0 ? low : high) : odd[next(state) % std::size(odd)];
  }
  // Whole numbers: each of the range as often as the others.
  return whole ? std::min(std::floor(std::lerp(low, high + 1, unit)), high) : std::lerp(low, high, unit);
}

// The inputs of operators that are not defined on numbers of any kind.
struct wish {
  element type = element::other;  // other: the one asked for
  std::int64_t below = 0;         // not 0: indices below this
  bool positive = false;
};
wish wish_of(const request& q, std::size_t i) {
  const std::string_view op = q.op;
  const auto is = [op](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), op) != names.end();
  };
  if (is({"And", "Or", "Xor", "Not"}) || (op == "Where" && i == 0)) return {element::boolean};
  if (is({"Log", "Sqrt", "Reciprocal", "Acosh", "Div", "Mod", "Pow"}) || (op == "BatchNormalization" && i == 4)) {
    return {element::other, 0, true};
  }
  // Returns the dimension of input 0 that input 1 counts in.
  const auto dimension = [&](std::size_t d) {
    if (rank_of(q, 0) <= static_cast<std::int64_t>(d)) refuse("input 0 has no dimension to count in");
    return q.inputs[0]->shape[d];
  };
  if (is({"Gather", "GatherElements", "Scatter", "ScatterElements"}) && i == 1) return {element::i64, dimension(0)};
  if (is({"GatherND", "ScatterND"}) && i == 1) return {element::i64, 8};
  if (op == "ReverseSequence" && i == 1) return {element::i64, dimension(0)};
  if (op == "MaxUnpool" && i == 1) return {element::i64, 16};
  if (is({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) && i == 1) return {element::i64, dimension(1)};
  if (is({"MatMulInteger", "ConvInteger"})) return {element::u8};
  if (op == "DequantizeLinear" && i == 0) return {element::u8};
  if (is({"QLinearMatMul", "QLinearConv"})) {
    const bool scale = i == 1 || i == 4 || i == 6;
    return scale ? wish{element::f32, 0, true} : wish{element::u8};
  }
  if (op == "QuantizeLinear" && i == 1) return {element::other, 0, true};
  if (op == "RoiAlign" && i == 2) return {element::i64, dimension(0)};
  return {};
}

// Adds attributes and parameters that the operator needs, as small as can be.
void add_defaults(request& q, std::vector<tensor>& parameters) {
  const auto integers_of = [](std::vector<std::int64_t> values, bool scalar = false) {
    tensor t{element::i64, scalar ? shape{} : shape{static_cast<std::int64_t>(values.size())}, {}};
    t.data.resize(values.size() * sizeof(std::int64_t));
    std::memcpy(t.data.data(), values.data(), t.data.size());
    return t;
  };
  const auto attribute = [&](const char* name, op::attribute value) { q.attributes.emplace(name, std::move(value)); };
  const auto parameter = [&](std::size_t i, tensor t) {
    while (q.inputs.size() <= i) q.inputs.emplace_back();
    q.inputs[i] = tensor_type{t.shape, t.type};
    parameters[i] = std::move(t);
  };
  const shape& x = q.inputs.empty() || !q.inputs[0] ? shape{} : q.inputs[0]->shape;
  const std::vector<std::int64_t> ones(x.size(), 1), zeros(x.size(), 0);
  const std::vector<std::int64_t> windows(x.size() < 2 ? 0 : x.size() - 2, 2);
  const std::string_view op = q.op;
  if (op == "Cast") attribute("to", std::int64_t{1});
  if (op == "BitShift") attribute("direction", std::string{"LEFT"});
  if (op == "MaxPool" || op == "AveragePool" || op == "LpPool") attribute("kernel_shape", windows);
  if (op == "MaxUnpool") {
    attribute("kernel_shape", windows);
    attribute("strides", windows);
  }
  if (op == "DepthToSpace" || op == "SpaceToDepth") attribute("blocksize", std::int64_t{2});
  if (op == "LRN") attribute("size", std::int64_t{5});
  if (op == "Einsum") attribute("equation", std::string{"ij,jk->ik"});
  if (op == "BlackmanWindow" || op == "HammingWindow" || op == "HannWindow") parameter(0, integers_of({64}, true));
  if (op == "MelWeightMatrix") {
    constexpr std::int64_t bands_length_rate_edges[] = {8, 256, 8000, 0, 4000};
    for (std::size_t i = 0; i < 5; ++i) parameter(i, integers_of({bands_length_rate_edges[i]}, true));
  }
  if (op == "STFT") parameter(1, integers_of({8}, true));
  if (op == "Reshape") parameter(1, integers_of({-1}));
  if (op == "Unsqueeze") parameter(1, integers_of({0}));
  if (op == "Expand") parameter(1, integers_of({x.empty() ? 1 : x.front(), 16}));
  if (op == "Tile") parameter(1, integers_of(std::vector<std::int64_t>(x.size(), 2)));
  if (op == "CumSum") parameter(1, integers_of({-1}, true));
  if (op == "TopK") parameter(1, integers_of({std::min<std::int64_t>(8, x.empty() ? 1 : x.back())}));
  if (op == "Pad") {
    std::vector<std::int64_t> pads = ones;
    pads.insert(pads.end(), ones.begin(), ones.end());
    parameter(1, integers_of(pads));
  }
  if (op == "Slice") {
    parameter(1, integers_of(zeros));
    parameter(2, integers_of(std::vector<std::int64_t>(x.size(), 1 << 20)));
    std::vector<std::int64_t> axes(x.size());
    for (std::size_t d = 0; d < x.size(); ++d) axes[d] = static_cast<std::int64_t>(d);
    parameter(3, integers_of(axes));
    parameter(4, integers_of(std::vector<std::int64_t>(x.size(), 2)));
  }
  if (op == "Resize") {
    std::vector<std::int64_t> sizes = x;
    if (!sizes.empty()) sizes.back() *= 2;
    parameter(3, integers_of(sizes));
  }
}

}  // namespace

prepared prepare(std::string_view name, const check_options& o) {
  const definition* d = find(name);
  if (d == nullptr) refuse("no operator is called '" + std::string{name} + "'");
  prepared p;
  p.q.op = d->name;
  p.q.opset = o.opset;
  p.q.attributes = o.attributes;
  const auto shapes = o.shapes.empty() ? shapes_of(d->example) : o.shapes;
  p.parameters.resize(std::max<std::size_t>(shapes.size(), 32));
  for (const shape& s : shapes) {
    (void)count_of(s);
    p.q.inputs.emplace_back(tensor_type{s, o.type});
  }
  add_defaults(p.q, p.parameters);
  p.q.constants.assign(p.q.inputs.size(), nullptr);
  std::uint64_t state = o.seed;
  p.operands = operands_of(p.q);
  for (std::size_t i = 0; i < p.q.inputs.size(); ++i) {
    if (!p.q.inputs[i]) continue;
    if (!p.parameters[i].data.empty()) {
      p.q.constants[i] = &p.parameters[i];
      continue;
    }
    const wish w = wish_of(p.q, i);
    if (w.type != element::other) p.q.inputs[i]->type = w.type;
    if (std::find(p.operands.begin(), p.operands.end(), i) == p.operands.end()) continue;
    const element type = p.q.inputs[i]->type;
    if (element_size(type) == 0) refuse("no such element type");
    const interval range = w.below > 0 ? interval{} : range_of(type, o);
    std::vector<double> values(static_cast<std::size_t>(count_of(p.q.inputs[i]->shape)));
    for (double& v : values) {
      v = made_up(state, type, range, o.edges, w.below);
      if (w.positive && !o.edges) v = is_real(type) ? 1 + std::abs(v) : std::max(1.0, std::abs(v));
      std::byte rounded[8] = {};
      write(type, rounded, v);  // the reference sees what the operand can hold
      v = read(type, rounded);
    }
    p.values.push_back(std::move(values));
  }
  return p;
}

}  // namespace berth::op
