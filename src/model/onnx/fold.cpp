#include "model/onnx/fold.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "berth/model/input_error.hpp"
#include "model/onnx/infer.hpp"

namespace berth::model {

namespace {

template <class T>
std::vector<T> values_of(const tensor& t) {
  std::vector<T> values(t.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), t.data.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
tensor tensor_of(element type, shape s, const std::vector<T>& values) {
  tensor t{type, std::move(s), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

// An empty tensor's data, of which the node may make as much as its shape says.
std::size_t data_size(const description& m, const node& n, allowance& room, element type, const shape& s) {
  const bytes size = static_cast<bytes>(element_count(m, called(n), s)) * element_size(type);
  room.take(m, n, size);
  return static_cast<std::size_t>(size);
}

// Element by element in row-major order of `result`: the source index of result index i along each dimension is
// start + i * step, in units of the source's own (row-major) strides.
struct axis_map {
  std::int64_t count;
  std::int64_t start;  // in elements of the source
  std::int64_t step;   // in elements of the source
};

tensor picked(const tensor& from, shape result, std::size_t bytes_of_result, const std::vector<axis_map>& axes) {
  const std::size_t size = element_size(from.type);
  tensor to{from.type, std::move(result), {}};
  to.data.resize(bytes_of_result);
  std::int64_t source = 0;
  for (const axis_map& a : axes) source += a.start;
  std::vector<std::int64_t> at(axes.size(), 0);
  for (std::size_t i = 0; i < to.data.size(); i += size) {
    std::memcpy(to.data.data() + i, from.data.data() + static_cast<std::size_t>(source) * size, size);
    for (std::size_t d = at.size(); d-- > 0;) {
      source += axes[d].step;
      if (++at[d] != axes[d].count) break;
      source -= at[d] * axes[d].step;
      at[d] = 0;
    }
  }
  return to;
}

std::vector<std::int64_t> element_strides(const shape& s) {
  std::vector<std::int64_t> strides(s.size());
  std::int64_t next = 1;
  for (std::size_t d = s.size(); d-- > 0; next *= s[d]) strides[d] = next;
  return strides;
}

// Of integers modulo 2^64, as NumPy has it.
template <class T>
T combined(const description& m, const node& n, T x, T y) {
  if (n.op == "Div" && y == 0) throw input_error(m.source, called(n) + ": division of constants by zero");
  if constexpr (std::is_integral_v<T>) {
    using wide = std::make_unsigned_t<T>;
    const auto a = static_cast<wide>(x), b = static_cast<wide>(y);
    if (n.op == "Add") return static_cast<T>(a + b);
    if (n.op == "Sub") return static_cast<T>(a - b);
    if (n.op == "Mul") return static_cast<T>(a * b);
    return y == -1 ? static_cast<T>(wide{0} - a) : x / y;
  } else {
    return n.op == "Add" ? x + y : n.op == "Sub" ? x - y : n.op == "Mul" ? x * y : x / y;
  }
}

template <class T>
tensor arithmetic(const description& m, const node& n, const tensor& a, const tensor& b, allowance& room) {
  const shape result = broadcast(m, n, a.shape, b.shape);
  const std::size_t size = data_size(m, n, room, a.type, result);
  const auto stretched = [&](const tensor& t) {
    std::vector<axis_map> axes;
    const auto strides = element_strides(t.shape);
    for (std::size_t d = 0; d < result.size(); ++d) {
      const std::size_t missing = result.size() - t.shape.size();
      const bool moves = d >= missing && t.shape[d - missing] != 1;
      axes.push_back({result[d], 0, moves ? strides[d - missing] : 0});
    }
    return values_of<T>(picked(t, result, size, axes));
  };
  std::vector<T> x = stretched(a);
  const std::vector<T> y = stretched(b);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = combined(m, n, x[i], y[i]);
  return tensor_of(a.type, result, x);
}

tensor gathered(const description& m, const node& n, const tensor& data, const tensor& indices, allowance& room) {
  const auto axis = static_cast<std::size_t>(
      axis_of(m, n, attribute_or<std::int64_t>(m, n, "axis", 0), static_cast<std::int64_t>(data.shape.size())));
  const auto strides = element_strides(data.shape);
  room.take(m, n, indices.data.size());
  std::vector<std::int64_t> at = integers(m, called(n) + ", indices", indices);
  for (std::int64_t& index : at) {
    if (index < 0) index += data.shape[axis];
    if (index < 0 || index >= data.shape[axis]) throw input_error(m.source, called(n) + ": index out of range");
  }
  shape result(data.shape.begin(), data.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  result.insert(result.end(), indices.shape.begin(), indices.shape.end());
  result.insert(result.end(), data.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.shape.end());
  // One slice per index, put side by side: [before][after] each, then interleaved by `before`.
  std::int64_t before = 1, after = 1;
  for (std::size_t d = 0; d < axis; ++d) before *= data.shape[d];
  for (std::size_t d = axis + 1; d < data.shape.size(); ++d) after *= data.shape[d];
  const std::size_t row = static_cast<std::size_t>(after) * element_size(data.type);
  tensor to{data.type, result, {}};
  to.data.resize(data_size(m, n, room, data.type, result));
  std::size_t next = 0;
  for (std::int64_t b = 0; b < before && next < to.data.size(); ++b) {
    for (const std::int64_t index : at) {
      const auto from = static_cast<std::size_t>((b * data.shape[axis] + index) * after) * element_size(data.type);
      std::memcpy(to.data.data() + next, data.data.data() + from, row);
      next += row;
    }
  }
  return to;
}

tensor joined(const description& m, const node& n, const std::vector<const tensor*>& inputs, allowance& room) {
  std::vector<shape> shapes;
  for (const tensor* t : inputs) shapes.push_back(t->shape);
  tensor to{inputs.front()->type, concatenated(m, n, shapes), {}};
  const auto axis = static_cast<std::size_t>(
      axis_of(m, n, attribute_or<std::int64_t>(m, n, "axis", 0), static_cast<std::int64_t>(to.shape.size())));
  for (const tensor* t : inputs) {
    if (t->type != to.type) throw input_error(m.source, called(n) + ": inputs of different types");
  }
  const std::size_t size = data_size(m, n, room, to.type, to.shape);
  std::size_t before = 1;
  for (std::size_t d = 0; d < axis; ++d) before *= static_cast<std::size_t>(to.shape[d]);
  for (std::size_t b = 0; b < before && size != 0; ++b) {
    for (const tensor* t : inputs) {
      const std::size_t row = t->data.size() / before;
      const auto first = t->data.begin() + static_cast<std::ptrdiff_t>(b * row);
      to.data.insert(to.data.end(), first, first + static_cast<std::ptrdiff_t>(row));
    }
  }
  return to;
}

// What a float is as a whole number.
template <class T>
T truncated(const description& m, const node& n, float v) {
  constexpr float end = -static_cast<float>(std::numeric_limits<T>::min());  // 2^31 or 2^63, which no T is
  if (!(v >= -end && v < end)) {
    throw input_error(m.source, called(n) + ": " + std::to_string(v) + " is no whole number of its type");
  }
  return static_cast<T>(v);
}

std::optional<tensor> cast(const description& m, const node& n, const tensor& from, allowance& room) {
  constexpr std::int64_t onnx_float = 1, onnx_int32 = 6, onnx_int64 = 7;
  const auto to = attribute_or<std::int64_t>(m, n, "to", 0);
  const auto convert = [&]<class T>(element type, T) -> std::optional<tensor> {
    if (from.type != element::f32 && from.type != element::i64 && from.type != element::i32) return std::nullopt;
    (void)data_size(m, n, room, type, from.shape);
    if (from.type == element::f32) {
      const auto values = values_of<float>(from);
      if constexpr (std::is_same_v<T, float>) {
        return tensor_of(type, from.shape, values);
      } else {
        std::vector<T> whole;
        for (const float v : values) whole.push_back(truncated<T>(m, n, v));
        return tensor_of(type, from.shape, whole);
      }
    }
    const auto values = integers(m, called(n), from);
    std::vector<T> converted;
    for (const std::int64_t v : values) converted.push_back(static_cast<T>(v));
    return tensor_of(type, from.shape, converted);
  };
  if (to == onnx_float) return convert(element::f32, float{});
  if (to == onnx_int64) return convert(element::i64, std::int64_t{});
  if (to == onnx_int32) return convert(element::i32, std::int32_t{});
  return std::nullopt;
}

}  // namespace

std::vector<std::int64_t> integers(const description& m, const std::string& what, const tensor& t) {
  if (t.type == element::i64) return values_of<std::int64_t>(t);
  if (t.type != element::i32) throw input_error(m.source, what + ": expected integers");
  const auto narrow = values_of<std::int32_t>(t);
  return {narrow.begin(), narrow.end()};
}

tensor integer_tensor(shape s, const std::vector<std::int64_t>& values) {
  return tensor_of(element::i64, std::move(s), values);
}

std::vector<float> floats(const description& m, const std::string& what, const tensor& t) {
  if (t.type != element::f32) throw input_error(m.source, what + ": expected f32 values");
  return values_of<float>(t);
}

tensor float_tensor(shape s, const std::vector<float>& values) {
  return tensor_of(element::f32, std::move(s), values);
}

std::optional<tensor> fold(const description& m, const node& n, const std::vector<const tensor*>& inputs,
                           allowance& room) {
  if (n.op == "Constant") {
    if (n.attributes.contains("value")) return attribute_or(m, n, "value", tensor{});
    if (n.attributes.contains("value_int")) {
      return integer_tensor({}, {attribute_or<std::int64_t>(m, n, "value_int", 0)});
    }
    if (n.attributes.contains("value_float")) return float_tensor({}, {attribute_or(m, n, "value_float", 0.0f)});
    if (n.attributes.contains("value_ints")) {
      const auto values = attribute_or(m, n, "value_ints", std::vector<std::int64_t>{});
      return integer_tensor({static_cast<std::int64_t>(values.size())}, values);
    }
    return std::nullopt;
  }
  for (const tensor* t : inputs) {
    if (t == nullptr) return std::nullopt;
  }
  if (inputs.empty()) return std::nullopt;
  const tensor& first = *inputs.front();
  if (element_size(first.type) == 0) return std::nullopt;

  if (n.op == "Identity" || n.op == "Dropout") {
    room.take(m, n, first.data.size());
    return first;
  }
  if (n.op == "Cast") return cast(m, n, first, room);
  if (n.op == "Concat") return joined(m, n, inputs, room);
  if (n.op == "Gather" && inputs.size() == 2) return gathered(m, n, first, *inputs[1], room);
  if (n.op == "ConstantOfShape") {
    const tensor fill = attribute_or(m, n, "value", float_tensor({1}, {0}));
    if (fill.data.size() != element_size(fill.type)) throw input_error(m.source, called(n) + ": value is not a scalar");
    room.take(m, n, first.data.size());
    tensor made{fill.type, integers(m, called(n), first), {}};
    made.data.resize(data_size(m, n, room, made.type, made.shape));
    for (std::size_t i = 0; i < made.data.size(); i += fill.data.size()) {
      std::memcpy(made.data.data() + i, fill.data.data(), fill.data.size());
    }
    return made;
  }
  if (n.op == "Reshape" || n.op == "Squeeze" || n.op == "Unsqueeze" || n.op == "Flatten") {
    room.take(m, n, first.data.size());
    tensor same = first;
    same.shape = reshaped(m, n, first.shape, [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; });
    return same;
  }
  if (n.op == "Slice") {
    const slicing s = sliced(m, n, first.shape, [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; });
    const auto strides = element_strides(first.shape);
    std::vector<axis_map> axes;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      axes.push_back({s.result[d], s.start[d] * strides[d], s.step[d] * strides[d]});
    }
    return picked(first, s.result, data_size(m, n, room, first.type, s.result), axes);
  }
  if ((n.op == "Add" || n.op == "Sub" || n.op == "Mul" || n.op == "Div") && inputs.size() == 2 &&
      first.type == inputs[1]->type) {
    if (first.type == element::i64) return arithmetic<std::int64_t>(m, n, first, *inputs[1], room);
    if (first.type == element::f32) return arithmetic<float>(m, n, first, *inputs[1], room);
  }
  return std::nullopt;
}

}  // namespace berth::model
