// The base of Berth's own kernels: an operation over operands whose types and strides are known. Also the kernels that
// many operators are made of.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "op/plain/convert.hpp"
#include "op/plain/nest.hpp"
#include "op/request.hpp"

namespace berth::op {

// The number of elements converted into a kernel's type at a time, on its stack.
inline constexpr std::int64_t chunk = 256;

// Returns the rule of an operand whose strides are set.
[[nodiscard]] operand_rule rule_of(const tensor_type& t, bool written, bool in_place);

// Base of the plain kernels: the operands' rules, and the addresses of a run.
class plain_operation : public operation {
 public:
  [[nodiscard]] const char* kernel() const noexcept override { return "plain"; }
  // Returns the bytes that it keeps from phase one on, if they are as many as a constant has elements.
  [[nodiscard]] bytes held() const noexcept { return held_; }
  void hold(bytes held) noexcept { held_ = held; }

 protected:
  plain_operation(const request& q, const std::vector<tensor_type>& outputs, bool in_place, bytes workspace,
                  const char* what);

  bases at_;
  void* workspace_ = nullptr;

 private:
  void bind(std::span<void* const> addresses, void* workspace) noexcept override {
    at_ = {reinterpret_cast<std::byte* const*>(addresses.data()), addresses.size()};
    workspace_ = workspace;
  }
  bytes held_ = 0;
};

// Returns the strides of t as seen under the larger shape `s`: 0 if t is broadcast.
[[nodiscard]] strides broadcast_strides(const tensor_type& t, const shape& s);

using made = std::unique_ptr<operation>;

// Copies the elements of operand 0, of `size` bytes each, to operand 1.
void copy_elements(const nest& over, bases at, std::size_t size) noexcept;

// Copies of strided elements: from operand and offset to result and offset, of one shape.
struct strided_copy {
  std::size_t from = 0, to = 0;  // operands
  std::int64_t from_offset = 0, to_offset = 0;
  op::shape shape;
  strides from_by, to_by;
};
// One pass each, in order. `fill`: the result is first filled with the element that this constant holds (or zeros),
// or with the scalar at operand `fill_operand`.
struct filling {
  bool wanted = false;
  std::vector<std::byte> element;  // empty: zero bytes
  std::ptrdiff_t operand = -1;
};
[[nodiscard]] made copies(const request& q, const std::vector<tensor_type>& outputs, std::vector<strided_copy> each,
                          filling fill = {});

// One element, read or written through the widest type of its kind. For kernels whose order of elements is their own.
template <class C>
[[nodiscard]] C read_as(element e, const std::byte* at) noexcept {
  C v{};
  if (is_native<C>(e)) {
    std::memcpy(&v, at, sizeof v);
  } else {
    load_as<C>(e)(at, 0, 1, &v);
  }
  return v;
}
[[nodiscard]] inline double read(element e, const std::byte* at) noexcept {
  if (e != element::f32) return read_as<double>(e, at);
  float f = 0;  // what most elements are: a call for each would take most of a window's time
  std::memcpy(&f, at, sizeof f);
  return f;
}
// Returns the sum of `count` products of elements that lie so far apart.
[[nodiscard]] inline double dot(element e, const std::byte* a, std::int64_t a_by, const std::byte* b, std::int64_t b_by,
                                std::int64_t count) noexcept {
  double total = 0;
  if (e != element::f32) {
    for (std::int64_t i = 0; i < count; ++i)
      total += read_as<double>(e, a + i * a_by) * read_as<double>(e, b + i * b_by);
    return total;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    float x = 0, y = 0;
    std::memcpy(&x, a + i * a_by, sizeof x);
    std::memcpy(&y, b + i * b_by, sizeof y);
    total += double{x} * double{y};
  }
  return total;
}
void write(element e, std::byte* at, double value) noexcept;
[[nodiscard]] inline std::int64_t read_integer(element e, const std::byte* at) noexcept {
  return read_as<std::int64_t>(e, at);
}

// A kernel that is a function of its operands. `f` is what the function captured in phase one.
template <class F>
class function_operation final : public plain_operation {
 public:
  function_operation(const request& q, const std::vector<tensor_type>& outputs, F f, bytes workspace, const char* what,
                     bool in_place)
      : plain_operation{q, outputs, in_place, workspace, what}, f_{std::move(f)} {}

 private:
  void compute() noexcept override { f_(at_, workspace_); }
  F f_;
};
// f(bases operands, void* workspace), which allocates nothing and does not throw. `in_place`: every input is read at
// the element that is written, before it is.
template <class F>
[[nodiscard]] made function(const request& q, const std::vector<tensor_type>& outputs, F f, bytes workspace = 0,
                            const char* what = "", bool in_place = false) {
  return std::make_unique<function_operation<F>>(q, outputs, std::move(f), workspace, what, in_place);
}

// Notes that the operation, one of the plain kernels, holds so many bytes.
[[nodiscard]] inline made holding(made run, bytes held) {
  static_cast<plain_operation&>(*run).hold(held);
  return run;
}

}  // namespace berth::op
