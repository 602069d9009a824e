// Questions of the table's rows to a request. All throw refusal.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "berth/op/operator.hpp"

namespace berth::op {

using strides = std::vector<std::int64_t>;

[[noreturn]] void refuse(const std::string& why);

// "1x3x224x224"; "scalar" for no dimensions.
[[nodiscard]] std::string text_of(const shape& s);
// Returns the number of elements of a shape; refuses one beyond the bounds.
[[nodiscard]] std::int64_t count_of(const shape& s);
// Refuses too many steps: the product of these, none below 0.
void limit_steps(const shape& counts);
// Row-major strides in bytes.
[[nodiscard]] strides row_major(const shape& s, element type);
[[nodiscard]] tensor_type dense(element type, shape s);
// Returns the strides that the type has or means.
[[nodiscard]] strides strides_of(const tensor_type& t);
[[nodiscard]] bool is_row_major(const tensor_type& t);

[[nodiscard]] bool has(const request& q, std::size_t i) noexcept;
[[nodiscard]] const tensor_type& input(const request& q, std::size_t i);
[[nodiscard]] inline const shape& shape_of(const request& q, std::size_t i) {
  return input(q, i).shape;
}
[[nodiscard]] std::int64_t rank_of(const request& q, std::size_t i);
// Returns the operand of phase two that input i is.
[[nodiscard]] std::size_t operand_of(const request& q, std::size_t i);

template <class T>
[[nodiscard]] T attribute_or(const attributes& from, const std::string& name, T fallback) {
  const auto found = from.find(name);
  if (found == from.end()) return fallback;
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  refuse("attribute '" + name + "' has the wrong type");
}
template <class T>
[[nodiscard]] T attribute_or(const request& q, const std::string& name, T fallback) {
  return attribute_or(q.attributes, name, std::move(fallback));
}

// Returns the text of an attribute; refuses one that is none of these.
[[nodiscard]] std::string choice(const request& q, const char* name, const char* fallback,
                                 std::initializer_list<const char*> known);

// Returns the values of a given parameter. `most`: the longest that can be right, since each node that names a constant
// would copy it.
[[nodiscard]] std::vector<std::int64_t> integers(const request& q, std::size_t i,
                                                 std::size_t most = static_cast<std::size_t>(most_extent));
[[nodiscard]] std::vector<double> numbers(const request& q, std::size_t i, std::size_t most = 2 * most_rank);
// Returns the constant that input i is; refuses one that is computed at run time.
[[nodiscard]] const tensor& parameter(const request& q, std::size_t i);
// Returns an integer list that is an attribute in some opsets and an input in others; empty if it is neither.
[[nodiscard]] std::vector<std::int64_t> list(const request& q, const char* name, std::size_t index,
                                             std::size_t most = 2 * most_rank);

// Refuses operands of no known type, and shapes or strides beyond the bounds of every tensor.
void validate_inputs(const request& q);
// Refuses a result beyond those bounds, and one whose elements would lie on one another.
void validate_result(const tensor_type& t, std::size_t i);
[[nodiscard]] bool is_empty(const tensor_type& t) noexcept;

// Kinds of elements that operators are defined on.
[[nodiscard]] bool is_real(element e) noexcept;     // f16, bf16, f32, f64
[[nodiscard]] bool is_integer(element e) noexcept;  // of whatever width and sign
[[nodiscard]] element require_real(const request& q, std::size_t i);
[[nodiscard]] element require_number(const request& q, std::size_t i);
// Returns the type that an attribute names by ONNX's number.
[[nodiscard]] element asked_type(const request& q, const std::string& which);
// Refuses inputs whose type differs from the first one's.
void require_same_types(const request& q);
// Returns the type of ONNX's number (TensorProto.DataType); `other` if there is none here.
[[nodiscard]] element element_of_onnx(std::int64_t type) noexcept;
[[nodiscard]] std::int64_t onnx_number(element e) noexcept;

}  // namespace berth::op
