// Calls of aclnn's operators for rows of the table: one function for each form of parameters, in the file of its
// family.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "op/ascend/operation.hpp"
#include "op/shapes.hpp"

namespace berth::op::ascend {

using tensors = tensor_handle* const*;
using sizes = std::uint64_t*;
using made = executor_handle**;
using asking = decltype(call::ask);

// The arguments of a row that says how its operator is called.
struct setting {
  const functions& acl;
  const request& q;
  const std::vector<tensor_type>& outputs;
  call how;           // its types may be changed; those added behind the operands' lie in the operation's workspace
  void* first;        // the first phase's function
  std::size_t given;  // operands that are inputs

  [[nodiscard]] std::size_t rank() const { return q.inputs[0]->shape.size(); }
};

struct row {
  const char* names;     // of the table's operators
  const char* function;  // aclnn's; null: aclnn and the operator's name
  asking (*how)(setting&);
};
// Each file lists its rows; operators.cpp puts the lists together.
using rows = std::span<const row>;
extern const rows dimension_rows, elementwise_rows, product_rows, shape_rows, window_rows;

template <class... Parameters>
status asked_of(void* function, Parameters... parameters) {
  return reinterpret_cast<status (*)(Parameters...)>(function)(parameters...);
}

// Asks for products of f32 as exactly as the chip computes them: in f32 (cubeMathType 0). Chips whose matrix unit knows
// f16 only refuse that, and then choose the precision themselves (1).
template <class Ask>
status most_exact(const functions& acl, Ask ask) {
  const status exact = ask(std::int8_t{0});
  if (exact != refused_parameter) return exact;
  driver::forget_text(*acl.runtime);  // not to be taken for a later failure's
  return ask(std::int8_t{1});
}

// Scalars and arrays live as long as the function that asks with them.
using scalar = std::shared_ptr<const scalar_handle>;
using array = std::shared_ptr<const array_handle>;

// Parameters of a first phase: the tensor at this place as it is read and as it is written (`nothing`: no tensor), the
// list of the operands that go as one, and the way that the matrix unit computes.
inline constexpr std::size_t nothing = SIZE_MAX;
struct in {
  std::size_t at;
};
struct out {
  std::size_t at;
};
struct all_listed {};
struct cube_type {};

// Turns a parameter into the argument of a call.
struct passing {
  tensors t;
  const list_handle* list;
  std::int8_t cube;
  const tensor_handle* operator()(in p) const { return p.at == nothing ? nullptr : t[p.at]; }
  tensor_handle* operator()(out p) const { return p.at == nothing ? nullptr : t[p.at]; }
  const list_handle* operator()(all_listed) const { return list; }
  std::int8_t operator()(cube_type) const { return cube; }
  const scalar_handle* operator()(const scalar& p) const { return p.get(); }
  const array_handle* operator()(const array& p) const { return p.get(); }
  template <class Number>
  requires std::is_arithmetic_v<Number> Number operator()(Number p) const { return p; }
};

// Asks with these parameters, in the order of the operator's function.
template <class... Parameters>
[[nodiscard]] asking asks(const setting& s, Parameters... p) {
  return [&acl = s.acl, f = s.first, p...](tensors t, const list_handle* list, sizes size, made e) {
    const auto ask = [&](std::int8_t cube) {
      const passing as{t, list, cube};
      return asked_of(f, as(p)..., size, e);
    };
    constexpr bool on_cubes = (std::is_same_v<Parameters, cube_type> || ...);
    return on_cubes ? most_exact(acl, ask) : ask(0);
  };
}
[[nodiscard]] scalar scalar_of(const setting& s, element type, const void* value);
[[nodiscard]] scalar scalar_of(const setting& s, float value);
// Returns the number that this input is; refuses one that is computed at run time.
[[nodiscard]] scalar constant_of(const setting& s, std::size_t input);
[[nodiscard]] array array_of(const setting& s, const std::vector<std::int64_t>& values);
template <class From>
[[nodiscard]] array array_of(const setting& s, const From& values) {
  return array_of(s, std::vector<std::int64_t>(values.begin(), values.end()));
}

[[nodiscard]] element type_of(const setting& s);
void require(bool holds, const char* why);
// Takes both functions of the operator of that name, which stays; refuses if this CANN lacks them.
void take_functions(setting& s, const char* name);

// Ask with one input and one output; with two and one.
[[nodiscard]] asking one(setting& s);
[[nodiscard]] asking two(setting& s);
// Ask with one input, a number (a dimension, a diagonal, an approximation) and one output. An array in its place.
[[nodiscard]] asking numbered(setting& s, std::int64_t number);
[[nodiscard]] asking with_array(setting& s, const std::vector<std::int64_t>& values);
// Asks with the dimensions to reduce, and whether they stay.
[[nodiscard]] asking reducing(setting& s, const std::vector<std::int64_t>& axes, bool keep);
[[nodiscard]] asking reducing_to_type(setting& s, const std::vector<std::int64_t>& axes, bool keep);

}  // namespace berth::op::ascend
