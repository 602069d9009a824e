#include "model/tflite_scratch.hpp"

#include <algorithm>
#include <string>

namespace berth::model {
namespace {

// BuiltinOperator and TensorType of the schema, those that matter here.
enum code : std::int32_t {
  conv_2d = 3,
  depthwise_conv_2d = 4,
  fully_connected = 9,
  svdf = 27,
  custom = 32,
  mean = 40,
  unidirectional_sequence_lstm = 44,
  transpose_conv = 67,
  sum = 74,
  reduce_max = 82,
  reduce_min = 89,
  mirror_pad = 100,
  add_n = 106,
  reduce_all = 140,
};
enum type : int { int16 = 7, int8 = 9, int4 = 17 };

class operation {
 public:
  operation(tflite_graph& g, std::size_t subgraph, std::size_t index) : g_{g}, subgraph_{subgraph}, index_{index} {
    const auto at = g.subgraphs[subgraph].operators[index];
    inputs_ = g.file.numbers(at, tflite_field::operation::inputs);
    outputs_ = g.file.numbers(at, tflite_field::operation::outputs);
  }

  [[nodiscard]] std::size_t inputs() const { return inputs_.size(); }
  [[nodiscard]] int type_of_input(std::size_t i) { return g_.file.number<std::int8_t>(at(inputs_, i), 1, 0); }
  [[nodiscard]] std::vector<std::int32_t> shape_of_input(std::size_t i) { return shape(at(inputs_, i)); }
  [[nodiscard]] std::vector<std::int32_t> shape_of_output() { return shape(at(outputs_, 0)); }

  [[noreturn]] void unknown(const std::string& what) const {
    const std::string named = (subgraph_ == 0 ? "" : std::to_string(subgraph_) + ":") + std::to_string(index_);
    g_.file.fail(tflite_graph::operator_called(subgraph_, index_) + " (" + what +
                 "): how much scratch it takes is not known; say it with --scratch " + named + "=BYTES, 0 for none");
  }

 private:
  flatbuffer::place at(const std::vector<std::int32_t>& list, std::size_t i) const {
    if (i >= list.size() || list[i] < 0) unknown("without the tensors that its kind has");
    return g_.subgraphs[subgraph_]
        .tensors[static_cast<std::size_t>(list[i])]
        .at;  // read_tflite_graph() has seen that it is there
  }
  std::vector<std::int32_t> shape(flatbuffer::place tensor) {
    std::vector<std::int32_t> out = g_.file.numbers(tensor, tflite_field::tensor::shape);
    for (const std::int32_t d : out) {
      if (d < 0) unknown("with a dimension that is unknown");
    }
    return out;
  }

  tflite_graph& g_;
  std::size_t subgraph_, index_;
  std::vector<std::int32_t> inputs_, outputs_;
};

bytes product(const std::vector<std::int32_t>& shape, bytes each) {
  for (const std::int32_t d : shape) {
    const auto more = checked_mul(each, static_cast<bytes>(d));
    if (!more) return max_bytes;
    each = *more;
  }
  return each;
}

bytes extent(const std::vector<std::int32_t>& shape, std::size_t axis) {
  return axis < shape.size() ? static_cast<bytes>(shape[axis]) : 1;
}

// Weights of four bits are unpacked to bytes.
std::vector<bytes> unpacked(operation& op) {
  if (op.type_of_input(1) != type::int4) return {};
  return {product(op.shape_of_input(1), 1)};
}

std::vector<bytes> of_reduction(operation& op, bool keeps_sums) {
  std::vector<bytes> out;
  const int kind = op.type_of_input(0);
  if (keeps_sums && (kind == type::int8 || kind == type::int16)) out.push_back(product(op.shape_of_output(), 4));
  out.push_back(4 * op.shape_of_input(0).size());
  out.push_back(product(op.shape_of_input(1), 4));
  return out;
}

std::vector<bytes> of_svdf(operation& op) {
  const bytes batch = extent(op.shape_of_input(0), 0), filters = extent(op.shape_of_input(1), 0);
  std::vector<bytes> out = {4 * batch * filters};
  if (op.type_of_input(0) == type::int8) out.push_back(4 * batch * extent(op.shape_of_output(), 1));
  return out;
}

std::vector<bytes> of_transpose_conv(operation& op) {  // its inputs: the output's shape, weights, data, bias
  const int kind = op.type_of_input(2);
  std::vector<bytes> out;
  if (kind == type::int16 && op.inputs() > 3 && op.type_of_input(3) == type::int16) {
    out.push_back(product(op.shape_of_input(3), 8));
  }
  if (kind == type::int8) out.push_back(product(op.shape_of_output(), 4));
  if (kind == type::int16) out.push_back(product(op.shape_of_output(), 8));
  return out;
}

// Four gates of the cell state's shape: its batch and units, in its type.
std::vector<bytes> of_lstm(operation& op) {
  constexpr std::size_t cell_state = 19;
  const bytes width = op.type_of_input(cell_state) == type::int16 ? 2 : 4;
  return std::vector<bytes>(4, product(op.shape_of_input(cell_state), width));
}

}  // namespace

std::vector<bytes> reference_scratch(tflite_graph& g, std::size_t subgraph, std::size_t index) {
  const std::int32_t code = g.code_of(g.subgraphs[subgraph].operators[index]);
  operation op{g, subgraph, index};
  switch (code) {
    case conv_2d:
    case depthwise_conv_2d:
    case fully_connected: return unpacked(op);
    case svdf: return of_svdf(op);
    case mean:
    case sum: return of_reduction(op, true);
    case reduce_max:
    case reduce_min:
    case reduce_all: return of_reduction(op, false);
    case transpose_conv: return of_transpose_conv(op);
    case unidirectional_sequence_lstm: return of_lstm(op);
    case mirror_pad: return std::vector<bytes>(2, 4 * op.shape_of_input(0).size());
    case add_n: return {4 * static_cast<bytes>(op.inputs())};
    case custom: op.unknown("custom");
    default: return {};
  }
}

}  // namespace berth::model
