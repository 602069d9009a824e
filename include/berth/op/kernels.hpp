// The operators: factories of two-phase operations over oneDNN's CPU kernels.
//
// oneDNN is not linked. A module, berth_onednn.so, has all code that calls it, and the first factory opens it: the file
// that the variable BERTH_ONEDNN names, or one beside the program or where Berth is installed ("none": no module).
// Without a module every factory returns an error, and Berth's own kernels remain (berth/op/operator.hpp).
//
// Tensors are f32, described by berth::tensor_type (shape, strides in bytes; no strides: dense row-major). A factory
// asks oneDNN for the best kernel for these layouts. Operands marked "packed" may get a layout of the kernel's own.
// Convolutions and pools run fastest on channels-last tensors, which also keeps their workspaces at some KiB
// (docs/decisions/0200-channels-last.md).
//
// Kernels pass NaN on, and a maximum pool knows -infinity. Functions behind a kernel or one another (`then`) differ:
// relu without a slope, clip, exp, maximum and minimum of oneDNN make a number of NaN. A check would be a pass of its
// own over the kernel's results. A softmax is NaN at the element itself alone.
//
// Errors of every factory: unsupported (no module, or a type, layout or combination that oneDNN has no kernel for).
// Thread-safety: factories may be called from any thread.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/graph.hpp"
#include "berth/op/operation.hpp"

namespace berth::op {

struct kernel_library {
  // "oneDNN 2.6.3, AVX2, threads: 8": all that workspaces depend on besides the operands; empty: there is none.
  std::string name{};
  [[nodiscard]] std::string called() const { return name.empty() ? "Berth's own" : name; }
  std::string why_not{};  // one line, if there is none
  bool refused = false;   // BERTH_ONEDNN names a file that cannot be used
};
// Returns the library of this process, which stays the same to its end.
[[nodiscard]] const kernel_library& get_kernel_library();

// Returns the strides in bytes of a dense f32 tensor N C [D] [H] [W] with channels innermost (N [D] [H] [W] C in
// memory).
[[nodiscard]] std::vector<std::int64_t> channels_last(std::span<const std::int64_t> shape);
// Returns the strides in bytes of a dense row-major f32 tensor.
[[nodiscard]] std::vector<std::int64_t> row_major(std::span<const std::int64_t> shape);

enum class activation_kind : std::uint8_t {
  relu,        // x > 0 ? x : alpha x
  clip,        // min(max(x, alpha), beta)
  linear,      // alpha x + beta
  sigmoid,     // 1 / (1 + e^-x)
  hard_swish,  // x min(max(x + 3, 0), 6) / 6
  swish,       // x sigmoid(alpha x)
  elu,         // x > 0 ? x : alpha (e^x - 1)
  gelu_erf,
  gelu_tanh,
  tanh,
  exp,
  log,
  sqrt,
  abs,
  square,
  power,  // alpha x^beta
};

struct activation {
  activation_kind kind = activation_kind::relu;
  float alpha = 0;
  float beta = 0;
};

using activations = std::vector<activation>;  // one after the other
using created = result<std::unique_ptr<operation>>;

// A window over the spatial dimensions, in order.
struct window {
  std::vector<std::int64_t> kernel{};
  std::vector<std::int64_t> strides{};
  std::vector<std::int64_t> dilations{};  // 1: dense
  std::vector<std::int64_t> pads_begin{};
  std::vector<std::int64_t> pads_end{};
};

struct convolution_description {
  tensor_type input{};    // N C spatial...
  tensor_type weights{};  // M C/groups kernel..., dense
  bool bias = false;      // M
  tensor_type output{};   // N M spatial...
  window over{};
  std::int64_t groups = 1;
  bool accumulate = false;  // output = activations(convolution + addend)
  activations then{};
};
// Operands: input, weights (packed), [bias], [addend], output. An addend has the output's type. The sum is formed in
// place if the addend lies at the output's address; otherwise the addend is copied there first.
[[nodiscard]] created convolution(const convolution_description& d);

struct transposed_convolution_description {
  tensor_type input{};    // N C spatial..., channels-last
  tensor_type weights{};  // C M/groups kernel..., dense
  bool bias = false;      // M
  tensor_type output{};   // N M spatial..., channels-last
  window over{};          // its pads are cut off the result; those at the end follow from the output's shape
  std::int64_t groups = 1;
  activations then{};
};
// Makes an operation in which every input element adds its window to the result. Operands: input, weights (packed),
// [bias], output.
[[nodiscard]] created transposed_convolution(const transposed_convolution_description& d);

// C = activations(A B + bias), over batches: shapes ... M K, ... K N, ... M N of equal rank, batch dimensions equal or
// 1. Operands: a, b (packed where b_constant), [bias: N], c.
struct matmul_description {
  tensor_type a{}, b{}, c{};
  bool b_constant = false;
  bool bias = false;
  activations then{};
};
[[nodiscard]] created matmul(const matmul_description& d);

// Operands: input, output. May run in place.
[[nodiscard]] created elementwise(const tensor_type& input, const tensor_type& output, const activations& each);

enum class binary_kind : std::uint8_t { add, subtract, multiply, divide, maximum, minimum };
// Operands: a, b, output; shapes of equal rank, b's dimensions a's or 1. May run in place on a.
[[nodiscard]] created binary(binary_kind kind, const tensor_type& a, const tensor_type& b, const tensor_type& output,
                             const activations& then);

enum class pool_kind : std::uint8_t { maximum, average, average_with_padding };
// Operands: input, output.
[[nodiscard]] created pooling(pool_kind kind, const tensor_type& input, const tensor_type& output, const window& over);

// Takes the mean over the dimensions in which output is 1. Operands: input, output.
[[nodiscard]] created mean(const tensor_type& input, const tensor_type& output);

// Operands: input, output. May run in place.
[[nodiscard]] created softmax(const tensor_type& input, const tensor_type& output, int axis);

// Normalizes over the last dimension. Operands: input, scale, shift, output. May run in place.
[[nodiscard]] created layer_normalization(const tensor_type& input, const tensor_type& output, float epsilon);

// Operands: inputs..., output.
[[nodiscard]] created concatenation(std::span<const tensor_type> inputs, const tensor_type& output, int axis);

// Copies from one layout to another. Operands: input, output.
[[nodiscard]] created reorder(const tensor_type& input, const tensor_type& output);

// Copies into the output at `begin` of each dimension, `value` elsewhere. Operands: input, output.
[[nodiscard]] created pad(const tensor_type& input, const tensor_type& output, std::vector<std::int64_t> begin,
                          float value);

}  // namespace berth::op
#pragma GCC visibility pop
