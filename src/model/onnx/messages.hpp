// The messages of an ONNX file (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto) as plain data. The elements of
// tensors stay in the file's bytes, which must outlive the messages.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::model::wire {

struct dimension {
  std::optional<std::int64_t> value{};
  std::string name{};
};

enum class type_kind : std::uint8_t { none, tensor, sequence, map, optional, sparse_tensor, opaque };

struct type {
  type_kind kind = type_kind::none;
  std::int64_t element = 0;  // of a tensor; TensorProto.DataType
  bool has_shape = false;
  std::vector<dimension> shape{};
  std::vector<type> inner{};  // what a sequence or an optional holds
};

struct value_info {
  std::string name{};
  wire::type type{};
  std::string_view body{};  // the message's bytes
};

// The values of TensorProto.DataType that the readers name.
enum data_type : std::int64_t { undefined = 0, float32 = 1, uint8 = 2, int32 = 6, int64 = 7, string = 8, boolean = 9 };

struct tensor {
  std::string name{};
  std::vector<std::int64_t> dims{};
  std::int64_t type = undefined;
  bool external = false;
  std::vector<std::pair<std::string, std::string>> external_data{};
  std::optional<std::string_view> raw{};
  std::vector<float> floats{};
  std::vector<double> doubles{};
  std::vector<std::int64_t> int32s{}, int64s{};
  std::vector<std::uint64_t> uint64s{};
};

struct sparse_tensor {
  tensor values{}, indices{};
};

// AttributeProto.AttributeType
enum class attribute_kind : std::uint8_t {
  undefined,
  number,
  integer,
  text,
  tensor,
  graph,
  numbers,
  integers,
  texts,
  tensors,
  graphs,
  sparse_tensor,
  sparse_tensors,
  type,
  types
};

struct graph;

// Vectors of types that hold a graph have no initializer up to graph's definition: one would need their destructor.
struct attribute {
  std::string name{};
  attribute_kind kind = attribute_kind::undefined;
  std::string refers_to{};  // in a function: the attribute of the node that calls it
  float number = 0;
  std::int64_t integer = 0;
  std::string text{};
  std::vector<float> numbers{};
  std::vector<std::int64_t> integers{};
  std::vector<std::string> texts{};
  std::vector<wire::tensor> tensors{};  // one where the kind is `tensor`
  std::vector<wire::graph> graphs;      // one where the kind is `graph`
  std::vector<wire::sparse_tensor> sparse_tensors{};
  bool has_one = false, has_list = false;  // as the file writes `tensors` or `graphs`; it never does both
};

struct node {
  std::string name{}, op{}, domain{}, overload{};
  std::vector<std::string> inputs{}, outputs{};
  std::vector<attribute> attributes;
  std::string_view body{};    // the message's bytes
  std::uint32_t in_file = 0;  // which node of the file's main graph it is, or is part of
};

struct graph {
  std::string name{};
  std::vector<node> nodes{};
  std::vector<tensor> initializers{};
  std::vector<sparse_tensor> sparse_initializers{};
  std::vector<value_info> inputs{}, outputs{}, values{};
};

struct opset {
  std::string domain{};
  std::int64_t version = 0;
};

struct function {
  std::string name{}, domain{}, overload{};
  std::vector<std::string> inputs{}, outputs{}, attributes{};
  std::vector<attribute> defaults{};
  std::vector<node> nodes{};
  std::vector<opset> opsets{};
};

struct model {
  std::int64_t ir_version = 0;
  std::vector<wire::opset> opsets{};
  std::optional<wire::graph> graph{};
  std::vector<function> functions{};
  std::deque<std::string> read_elsewhere{};  // elements of tensors that lie in other files
};

}  // namespace berth::model::wire
