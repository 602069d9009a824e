#include "model/onnx/fold.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "berth/model/input_error.hpp"
#include "op/plain/plain.hpp"

namespace berth::model {

namespace {

template <class T>
tensor tensor_of(element type, shape s, const std::vector<T>& values) {
  tensor t{type, std::move(s), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

// Refuses constants that are mistakes, though the kernels define a result for them.
void refuse_nonsense(const description& m, const node& n, const op::request& q,
                     const std::vector<tensor_type>& results) {
  // Calls f(element i of t).
  const auto each = [](const tensor& t, auto&& f) {
    const auto size = static_cast<std::size_t>(element_size(t.type));
    for (std::size_t at = 0; at + size <= t.data.size(); at += size) f(op::read(t.type, t.data.data() + at));
  };
  if (n.op == "Div" && q.constants.size() == 2 &&
      (q.constants[1]->type == element::i64 || q.constants[1]->type == element::i32)) {
    each(*q.constants[1], [&](double v) {
      if (v == 0) throw input_error(m.source, called(n) + ": division of constants by zero");
    });
  }
  const bool to_i64 = results[0].type == element::i64, to_i32 = results[0].type == element::i32;
  if (n.op == "Cast" && q.constants[0]->type == element::f32 && (to_i64 || to_i32)) {
    const double end = to_i64 ? 0x1p63 : 0x1p31;
    each(*q.constants[0], [&](double v) {
      if (!(v >= -end && v < end)) {
        throw input_error(m.source, called(n) + ": " + std::to_string(v) + " is no whole number of its type");
      }
    });
  }
}

}  // namespace

std::vector<float> floats(const description& m, const std::string& what, const tensor& t) {
  if (t.type != element::f32) throw input_error(m.source, what + ": expected f32 values");
  std::vector<float> values(t.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), t.data.data(), values.size() * sizeof(float));
  return values;
}

tensor float_tensor(shape s, const std::vector<float>& values) {
  return tensor_of(element::f32, std::move(s), values);
}

tensor constant_of(const description& m, const node& n) {
  if (n.attributes.contains("value")) return attribute_or(m, n, "value", tensor{});
  if (n.attributes.contains("value_int")) {
    return tensor_of<std::int64_t>(element::i64, {}, {attribute_or<std::int64_t>(m, n, "value_int", 0)});
  }
  if (n.attributes.contains("value_float")) return float_tensor({}, {attribute_or(m, n, "value_float", 0.0f)});
  if (n.attributes.contains("value_ints")) {
    const auto values = attribute_or(m, n, "value_ints", std::vector<std::int64_t>{});
    return tensor_of(element::i64, {static_cast<std::int64_t>(values.size())}, values);
  }
  if (n.attributes.contains("value_floats")) {
    const auto values = attribute_or(m, n, "value_floats", std::vector<float>{});
    return float_tensor({static_cast<std::int64_t>(values.size())}, values);
  }
  throw input_error(m.source, called(n) + ": what it holds is of a kind that is not supported");
}

std::vector<tensor> fold(const description& m, const node& n, const op::request& q,
                         const std::vector<tensor_type>& results, allowance& room) {
  const op::definition& row = *op::find(q.op);
  const auto operands = op::operands_of(q);
  if (!row.linear ||
      !std::all_of(operands.begin(), operands.end(), [&](std::size_t i) { return q.constants[i] != nullptr; })) {
    return {};
  }
  if (!operands.empty()) refuse_nonsense(m, n, q, results);
  for (const std::size_t i : operands) room.take(m, n, q.constants[i]->data.size());
  std::vector<tensor> made;
  for (const tensor_type& t : results) {
    const bytes size = static_cast<bytes>(element_count(m, called(n), t.shape)) * element_size(t.type);
    room.take(m, n, size);
    made.push_back({t.type, t.shape, std::vector<std::byte>(static_cast<std::size_t>(size))});
  }
  op::served s = op::serve(q);
  if (s.run == nullptr) return made;
  room.take(m, n, s.run->workspace());
  const auto workspace = static_cast<std::size_t>(s.run->workspace());
  const auto give_back = [](void* p) { ::operator delete (p, std::align_val_t{op::workspace_alignment}); };
  const std::unique_ptr<void, decltype(give_back)> memory{
      ::operator new (std::max<std::size_t>(workspace, 1), std::align_val_t{op::workspace_alignment}), give_back};
  // Kernels read their inputs and write only results, though an address does not say so. One of no bytes has none of
  // its own.
  std::byte nothing{};
  std::vector<void*> addresses;
  for (const std::size_t i : operands) {
    addresses.push_back(q.constants[i]->data.empty() ? &nothing : const_cast<std::byte*>(q.constants[i]->data.data()));
  }
  for (tensor& t : made) addresses.push_back(t.data.empty() ? &nothing : t.data.data());
  s.run->execute(addresses, memory.get());
  return made;
}

}  // namespace berth::model
