#include "op/request.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "op/plain/convert.hpp"

namespace berth::op {

void refuse(const std::string& why) {
  throw refusal{why};
}

std::string text_of(const shape& s) {
  if (s.empty()) return "scalar";
  std::string text;
  for (const std::int64_t d : s) {
    if (!text.empty()) text += 'x';
    text += std::to_string(d);
  }
  return text;
}

std::int64_t count_of(const shape& s) {
  constexpr bytes most = bytes{1} << 59;  // elements of eight bytes, the widest
  if (s.size() > most_rank) refuse("has more than 32 dimensions");
  bytes count = 1;
  for (const std::int64_t d : s) {
    if (d < 0) refuse("a dimension is negative: " + std::to_string(d));
    if (d > most_extent) refuse("a dimension exceeds 2^30: " + std::to_string(d));
    // An empty dimension does not excuse the others.
    const auto next = checked_mul(count, static_cast<bytes>(std::max<std::int64_t>(d, 1)));
    if (!next || *next > most) refuse("the product of its dimensions exceeds 2^59: " + text_of(s));
    count = *next;
  }
  if (!fits_size_t(count * 8)) refuse("has more elements than this machine can address: " + text_of(s));
  return std::find(s.begin(), s.end(), 0) == s.end() ? static_cast<std::int64_t>(count) : 0;
}

std::string choice(const request& q, const char* name, const char* fallback, std::initializer_list<const char*> known) {
  auto asked = attribute_or<std::string>(q, name, fallback);
  if (std::find(known.begin(), known.end(), asked) == known.end()) {
    refuse(std::string{name} + " '" + asked + "' is not one");
  }
  return asked;
}

void limit_steps(const shape& counts) {
  constexpr bytes most = bytes{1} << 44;  // hours
  bytes steps = 1;
  for (const std::int64_t count : counts) {
    const auto next = checked_mul(steps, static_cast<bytes>(std::max<std::int64_t>(count, 1)));
    if (!next || *next > most) refuse("would take more than 2^44 steps");
    steps = *next;
  }
}

strides row_major(const shape& s, element type) {
  strides by(s.size());
  std::uint64_t next = element_size(type);  // wraps for shapes that count_of() refuses
  for (std::size_t d = s.size(); d-- > 0; next *= static_cast<std::uint64_t>(s[d])) {
    by[d] = static_cast<std::int64_t>(next);
  }
  return by;
}

tensor_type dense(element type, shape s) {
  tensor_type t{std::move(s), type, 0, {}};
  t.strides = row_major(t.shape, type);
  return t;
}

strides strides_of(const tensor_type& t) {
  return t.strides.empty() ? row_major(t.shape, t.type) : t.strides;
}

bool is_row_major(const tensor_type& t) {
  if (t.strides.empty()) return true;
  const strides wanted = row_major(t.shape, t.type);
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    if (t.shape[d] != 1 && t.strides[d] != wanted[d]) return false;
  }
  return true;
}

bool has(const request& q, std::size_t i) noexcept {
  return i < q.inputs.size() && q.inputs[i].has_value();
}

const tensor_type& input(const request& q, std::size_t i) {
  if (!has(q, i)) refuse("input " + std::to_string(i) + " is missing");
  return *q.inputs[i];
}

std::int64_t rank_of(const request& q, std::size_t i) {
  return static_cast<std::int64_t>(shape_of(q, i).size());
}

std::size_t operand_of(const request& q, std::size_t i) {
  const auto operands = operands_of(q);
  return static_cast<std::size_t>(std::find(operands.begin(), operands.end(), i) - operands.begin());
}

const tensor& parameter(const request& q, std::size_t i) {
  (void)input(q, i);
  if (i >= q.constants.size() || q.constants[i] == nullptr) {
    refuse("input " + std::to_string(i) + " is computed at run time; only constants are supported");
  }
  return *q.constants[i];
}

namespace {
template <class C>
std::vector<C> values_as(const tensor& t, std::size_t i, std::size_t most) {
  const auto size = static_cast<std::int64_t>(element_size(t.type));
  if (size == 0) refuse("input " + std::to_string(i) + " is of a type that is not supported");
  const std::size_t count = t.data.size() / static_cast<std::size_t>(size);
  if (count > most) refuse("input " + std::to_string(i) + " has more than " + std::to_string(most) + " entries");
  std::vector<C> values(count);
  load_as<C>(t.type)(t.data.data(), size, static_cast<std::int64_t>(count), values.data());
  return values;
}
}  // namespace

std::vector<std::int64_t> integers(const request& q, std::size_t i, std::size_t most) {
  const tensor& t = parameter(q, i);
  if (!is_integer(t.type) && t.type != element::boolean) {
    refuse("input " + std::to_string(i) + ": expected integers");
  }
  return values_as<std::int64_t>(t, i, most);
}

std::vector<double> numbers(const request& q, std::size_t i, std::size_t most) {
  return values_as<double>(parameter(q, i), i, most);
}

std::vector<std::int64_t> list(const request& q, const char* name, std::size_t index, std::size_t most) {
  if (q.attributes.contains(name)) return attribute_or(q, name, std::vector<std::int64_t>{});
  return has(q, index) ? integers(q, index, most) : std::vector<std::int64_t>{};
}

bool is_real(element e) noexcept {
  return e == element::f32 || e == element::f16 || e == element::bf16 || e == element::f64;
}

bool is_integer(element e) noexcept {
  return !is_real(e) && e != element::boolean && e != element::other;
}

element require_real(const request& q, std::size_t i) {
  const element e = input(q, i).type;
  if (!is_real(e)) refuse("input " + std::to_string(i) + " is " + name(e) + "; the operator is defined on floats");
  return e;
}

element require_number(const request& q, std::size_t i) {
  const element e = input(q, i).type;
  if (!is_real(e) && !is_integer(e)) {
    refuse("input " + std::to_string(i) + " is " + name(e) + "; the operator is defined on numbers");
  }
  return e;
}

element asked_type(const request& q, const std::string& which) {
  const auto type = attribute_or<std::int64_t>(q, which, 0);
  if (element_of_onnx(type) == element::other) refuse("element type " + std::to_string(type) + " is not supported");
  return element_of_onnx(type);
}

void require_same_types(const request& q) {
  for (std::size_t i = 1; i < q.inputs.size(); ++i) {
    if (has(q, i) && input(q, i).type != input(q, 0).type) {
      refuse("input " + std::to_string(i) + " is " + name(input(q, i).type) + ", input 0 " + name(input(q, 0).type));
    }
  }
}

element element_of_onnx(std::int64_t type) noexcept {
  constexpr std::array<element, 17> types{element::other, element::f32, element::u8,  element::i8,    element::u16,
                                          element::i16,   element::i32, element::i64, element::other, element::boolean,
                                          element::f16,   element::f64, element::u32, element::u64,   element::other,
                                          element::other, element::bf16};
  return type < 0 || type >= std::ssize(types) ? element::other : types[static_cast<std::size_t>(type)];
}

std::int64_t onnx_number(element e) noexcept {
  std::int64_t type = 0;
  while (type < 32 && element_of_onnx(type) != e) ++type;
  return type;
}

}  // namespace berth::op
