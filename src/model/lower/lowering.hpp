// The state of lowering: the graph value of each model value, and the addition of a node to the program.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "berth/model/program.hpp"
#include "berth/op/kernels.hpp"
#include "model/lower/layout.hpp"
#include "model/onnx/infer.hpp"
#include "op/shapes.hpp"

namespace berth::model {

// A model value as it lies in memory: a graph value (or view) and its layout. type.strides is always set.
struct placed {
  value_id id;
  tensor_type type;
};

// Appends a function to a kernel's; `of_sum`: of one that sums products. Joins linear ones side by side if that rounds
// as both do, and limits always. Returns false if a second one of a kind stays, with other numbers: kernels of oneDNN
// 2.6 mix up the numbers of two (tests/model/lower_test.cpp).
[[nodiscard]] bool joined(op::activations& each, const op::activation& next, bool of_sum);

class lowering {
 public:
  lowering(description m, op::server by);

  program run();

 private:
  // lowering.cpp: values.
  [[noreturn]] void fail(const node& n, const std::string& what) const;
  [[nodiscard]] const tensor* constant(const std::string& name) const;
  [[nodiscard]] const tensor* constant_input(const node& n, std::size_t i) const;
  // Returns the node's request to the table of operators, with the layouts that its inputs have got.
  [[nodiscard]] op::request request(const node& n) const;
  [[nodiscard]] bool has_input(const node& n, std::size_t i) const;
  [[nodiscard]] const shape& shape_of(const std::string& name) const;
  // Returns the only reader of a value that is no output of the model; null if there are several.
  [[nodiscard]] const node* only_reader(const std::string& name) const;
  // Returns the zeros that a Pad adds to the spatial dimensions, if it does nothing else: at their begins, then at
  // their ends.
  [[nodiscard]] std::optional<shape> zero_padding(const node& n) const;
  // Makes such a Pad that only a convolution reads that convolution's own padding: the padded image has no other use.
  void absorb_pads();
  // Returns the value, made a row-major constant of the graph if it is one.
  placed get(const node& n, std::size_t i);
  placed keep_constant(const node& n, const std::string& name, const tensor& t, const strides& by);
  // Keeps a constant in the operation's layout for operand `operand`; the caller has taken it from room_.
  value_id keep_packed(const node& n, const std::string& name, tensor t, const op::operation& by, std::size_t operand);
  placed as_row_major(const node& n, placed p);
  placed as_channels_last(const node& n, placed p);
  placed in_layout(const node& n, placed p, const strides& by);
  placed view(const placed& of, tensor_type type, bytes offset = 0);
  void define(const std::string& name, placed p) { values_.insert_or_assign(name, std::move(p)); }

  // lowering.cpp: nodes.
  // Adds the operation's node. `in_place`: operands whose memory the result may take over, where nothing else that the
  // node reads lies there.
  placed emit(const node& n, const std::string& result, std::vector<value_id> inputs, tensor_type type,
              op::created made, std::vector<std::uint32_t> in_place = {});
  void add_output(const node& place);
  // Returns the element-wise function that n computes of one run-time input, if it is one; `data` is that input's name.
  [[nodiscard]] std::optional<op::activation> as_activation(const node& n, std::string& data) const;
  // Follows the only readers of `result` while they are element-wise functions, behind those `found` already; `result`
  // becomes the last one's. At most so many functions, well below oneDNN's 32 post-ops. `of_sum`: see joined().
  [[nodiscard]] op::activations absorb_activations(std::string& result, bool of_sum, op::activations found = {},
                                                   std::size_t most = 8);

  // lower_*.cpp: ways to the library's kernels and to views, one per group of operators. False, before anything was
  // added: the way does not know this node, and Berth's own kernel computes it.
  friend struct ways;
  void lower(const node& n);
  // Makes the batch normalization that alone reads `result` part of the weights and of the shift; weight i belongs to
  // channel_of(i). Returns false if there is none.
  bool absorb_normalization(std::string& result, std::vector<float>& weights, std::vector<float>& shift,
                            std::size_t channels, const std::function<std::size_t(std::size_t)>& channel_of);
  bool convolution(const node& n);
  bool transposed_convolution(const node& n);
  bool matmul(const node& n);
  bool gemm(const node& n);
  void product(const node& n, placed a, const tensor* b_constant, placed b, const tensor* bias, std::string result);
  bool elementwise(const node& n);
  bool binary(const node& n);
  bool batch_normalization(const node& n);
  // Returns the addend of the node to `to`, if that is one constant number per channel; else null.
  [[nodiscard]] const tensor* channel_addend(const node& add, const std::string& to) const;
  [[nodiscard]] std::vector<const tensor*> batch_statistics(const node& n) const;  // empty: not constants
  bool layer_normalization(const node& n);
  bool softmax(const node& n);
  bool pooling(const node& n);
  bool reduce_mean(const node& n);
  bool concatenation(const node& n);
  bool pad(const node& n);
  bool transpose(const node& n);
  bool reshape(const node& n);
  placed cut(const node& n, const placed& x, const op::slicing& s);
  bool slice(const node& n);
  bool split(const node& n);
  // Adds Berth's own kernel, from the table.
  void plain(const node& n);

  // Returns Berth's own kernel, or the device's.
  [[nodiscard]] op::served serve(const op::request& q, std::vector<tensor_type> outputs = {}) const;
  // Copies from one layout to another, by the library's kernel if there is one.
  [[nodiscard]] op::created copied(const tensor_type& from, const tensor_type& to) const;

  description m_;
  op::server by_;     // empty: the host's kernels
  bool has_library_;  // of the host: oneDNN's kernels before Berth's own
  allowance room_;
  value_types types_;
  std::set<std::string, std::less<>> outputs_;
  program out_;
  std::unordered_map<std::string, placed> values_;
  std::unordered_map<std::string, std::vector<node*>> readers_;
  std::set<const node*> absorbed_;  // their work is done by a node before them
};

}  // namespace berth::model
