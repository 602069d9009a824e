#include "op/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>

#include "op/shapes.hpp"

namespace berth::op {

namespace {

// An index into a shape, and the next one; false behind the last.
bool next(shape& at, const shape& s) {
  for (std::size_t d = s.size(); d-- > 0;) {
    if (++at[d] < s[d]) return true;
    at[d] = 0;
  }
  return false;
}

// V: long double, or a 64-bit integer, whose results wrap around.
template <class V>
struct array {
  op::shape shape;
  std::vector<V> v;

  explicit array(op::shape s) : shape{std::move(s)}, v(static_cast<std::size_t>(count_of(shape))) {}
  // Broadcast to the larger index.
  [[nodiscard]] V at(const op::shape& i) const {
    std::int64_t flat = 0;
    const std::size_t lead = i.size() - shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + (shape[d] == 1 ? 0 : i[lead + d]);
    return v[static_cast<std::size_t>(flat)];
  }
  template <class F>
  void each(F&& f) {
    if (v.empty()) return;
    op::shape i(shape.size(), 0);
    std::size_t k = 0;
    do v[k++] = f(static_cast<const op::shape&>(i));
    while (next(i, shape));
  }
};

template <class V>
V plus(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  return a + b;
}
template <class V>
V minus(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  return a - b;
}
template <class V>
V times(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  return a * b;
}
template <class V>
V quotient(V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    if (b == 0) return 0;
    if (std::is_signed_v<V> && b == static_cast<V>(-1)) return minus(V{0}, a);
  }
  return a / b;
}

template <class V>
using binary = std::function<V(V, V)>;
template <class V>
const std::map<std::string, binary<V>>& binaries() {
  static const auto& all = *new std::map<std::string, binary<V>>{
      {"Add", plus<V>},
      {"Sub", minus<V>},
      {"Mul", times<V>},
      {"Div", quotient<V>},
      {"Max", [](V a, V b) { return a != a || a > b ? a : b; }},
      {"Min", [](V a, V b) { return a != a || a < b ? a : b; }},
      {"And", [](V a, V b) { return V(a != 0 && b != 0); }},
      {"Or", [](V a, V b) { return V(a != 0 || b != 0); }},
      {"Xor", [](V a, V b) { return V((a != 0) != (b != 0)); }},
      {"Equal", [](V a, V b) { return V(a == b); }},
      {"Less", [](V a, V b) { return V(a < b); }},
      {"LessOrEqual", [](V a, V b) { return V(a <= b); }},
      {"Greater", [](V a, V b) { return V(a > b); }},
      {"GreaterOrEqual", [](V a, V b) { return V(a >= b); }},
  };
  return all;
}

template <class V>
using unary = std::function<V(V)>;
template <class V>
const std::map<std::string, unary<V>>& unaries() {
  static const auto& all = *[] {
    auto* const made = new std::map<std::string, unary<V>>{
        {"Identity", [](V x) { return x; }},
        {"Neg", [](V x) { return std::is_integral_v<V> ? minus(V{0}, x) : -x; }},
        {"Abs", [](V x) { return x > 0 || x != x ? x : minus(V{0}, x); }},
        {"Not", [](V x) { return V(x == 0); }},
        {"Relu", [](V x) { return x > 0 || x != x ? x : V{0}; }},
    };
    if constexpr (std::is_floating_point_v<V>) {
      made->emplace("Exp", [](V x) { return std::exp(x); });
      made->emplace("Log", [](V x) { return std::log(x); });
      made->emplace("Sqrt", [](V x) { return std::sqrt(x); });
      made->emplace("Sin", [](V x) { return std::sin(x); });
      made->emplace("Cos", [](V x) { return std::cos(x); });
      made->emplace("Tanh", [](V x) { return std::tanh(x); });
      made->emplace("Sigmoid", [](V x) { return 1 / (1 + std::exp(-x)); });
      made->emplace("Erf", [](V x) { return std::erf(x); });
      made->emplace("Floor", [](V x) { return std::floor(x); });
      made->emplace("Ceil", [](V x) { return std::ceil(x); });
    }
    return made;
  }();
  return all;
}

// Reduces over all dimensions, as a reduction without attributes does; CumSum over the last, as in its trial.
template <class V>
bool reduce_by_name(const std::string& op, const array<V>& x, array<V>& y) {
  static const auto& all = *new std::map<std::string, binary<V>>{
      {"ReduceSum", plus<V>},
      {"ReduceProd", times<V>},
      {"ReduceMax", binaries<V>().at("Max")},
      {"ReduceMin", binaries<V>().at("Min")},
  };
  const auto found = all.find(op);
  if (found == all.end() || x.v.empty() || y.v.size() != 1) return false;
  y.v[0] = std::accumulate(x.v.begin() + 1, x.v.end(), x.v[0], found->second);
  return true;
}

template <class V>
void multiplied(const array<V>& a, const array<V>& b, array<V>& y) {
  const std::int64_t depth = a.shape.back();
  y.each([&](const shape& i) {
    V sum{};
    shape left = i, right = i;
    for (std::int64_t k = 0; k < depth; ++k) {
      left.back() = k;
      right[right.size() - 2] = k;
      sum = plus(sum, times(a.at(left), b.at(right)));
    }
    return sum;
  });
}

template <class V>
void joined(const std::vector<array<V>>& in, std::size_t axis, array<V>& y) {
  y.each([&](const shape& i) {
    shape at = i;
    std::size_t which = 0;
    while (at[axis] >= in[which].shape[axis]) at[axis] -= in[which++].shape[axis];
    return in[which].at(at);
  });
}

template <class V>
bool compute(const request& q, const std::vector<array<V>>& in, array<V>& y) {
  const auto two = binaries<V>().find(q.op);
  if (two != binaries<V>().end()) {
    y.each([&](const shape& i) {
      V all = in[0].at(i);
      for (std::size_t k = 1; k < in.size(); ++k) all = two->second(all, in[k].at(i));
      return all;
    });
    return true;
  }
  const auto one = unaries<V>().find(q.op);
  if (one != unaries<V>().end()) {
    y.each([&](const shape& i) { return one->second(in[0].at(i)); });
    return true;
  }
  if (q.op == "Where") {
    y.each([&](const shape& i) { return in[0].at(i) != 0 ? in[1].at(i) : in[2].at(i); });
    return true;
  }
  if (q.op == "MatMul" && in[0].shape.size() > 1 && in[1].shape.size() > 1) {
    multiplied(in[0], in[1], y);
    return true;
  }
  if (q.op == "Transpose" && !q.attributes.contains("perm")) {
    y.each([&](const shape& i) { return in[0].at({i.rbegin(), i.rend()}); });
    return true;
  }
  if (q.op == "Concat") {
    joined(in, axis_of(q, 0, rank_of(q, 0)), y);
    return true;
  }
  return q.attributes.empty() && in.size() == 1 && reduce_by_name(q.op, in[0], y);
}

// Returns the value that a type of fewer bits keeps.
template <class V>
double kept(element type, V v) {
  if (type == element::boolean) return v != 0 ? 1 : 0;
  if constexpr (std::is_integral_v<V>) {
    switch (type) {
      case element::i8: return static_cast<std::int8_t>(v);
      case element::u8: return static_cast<std::uint8_t>(v);
      case element::i16: return static_cast<std::int16_t>(v);
      case element::u16: return static_cast<std::uint16_t>(v);
      case element::i32: return static_cast<std::int32_t>(v);
      case element::u32: return static_cast<std::uint32_t>(v);
      default: break;
    }
  }
  return static_cast<double>(v);
}

template <class V>
std::optional<std::vector<double>> answer(const request& q, const std::vector<std::vector<double>>& values) {
  const tensor_type result = infer(q)[0];
  const auto operands = operands_of(q);
  std::vector<array<V>> in;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    in.emplace_back(q.inputs[operands[k]]->shape);
    std::transform(values[k].begin(), values[k].end(), in.back().v.begin(), [](double v) { return static_cast<V>(v); });
  }
  if (in.empty()) return std::nullopt;
  array<V> y{result.shape};
  if (!compute(q, in, y)) return std::nullopt;
  std::vector<double> made;
  for (const V v : y.v) made.push_back(kept(result.type, v));
  return made;
}

}  // namespace

std::optional<std::vector<double>> expected_of(const request& q, const std::vector<std::vector<double>>& values) {
  // The operands that decide: a condition is of another type.
  const auto operands = operands_of(q);
  if (operands.empty() || q.outputs != 1) return std::nullopt;
  const element type = q.inputs[operands.back()]->type;
  for (const std::size_t i : operands) {
    const element other = q.inputs[i]->type;
    if (other != type && other != element::boolean) return std::nullopt;
  }
  if (type == element::u64) return answer<std::uint64_t>(q, values);
  return is_real(type) ? answer<long double>(q, values) : answer<std::int64_t>(q, values);
}

}  // namespace berth::op
