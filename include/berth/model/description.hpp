// A model as plain data: the content of a file (or a builder), before any decision about memory or kernels.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/graph/graph.hpp"
#include "berth/op/operator.hpp"

namespace berth::model {

using op::shape;
using op::tensor;  // a constant: dense, row-major

struct value_info {
  std::string name{};
  element type = element::f32;
  model::shape shape{};  // every dimension known
};

using op::attribute;

struct subgraph;

struct node {
  std::string name{};  // for people: where the file gives none, the first output's
  std::string op{};
  std::vector<std::string> inputs{};  // "": an optional input left out
  std::vector<std::string> outputs{};
  op::attributes attributes{};
  // By attribute: "then_branch" and "else_branch" of an If, "body" of a Loop, Scan or SequenceMap. Lowering puts their
  // content in the place of the node.
  std::map<std::string, std::shared_ptr<const subgraph>> bodies{};
};

// A graph inside a node. Its nodes read values of the graphs around it, too; its constants are the description's.
struct subgraph {
  std::vector<std::string> inputs{};
  std::vector<std::string> outputs{};
  std::vector<node> nodes{};
};

// The file's declaration of a value that its nodes make.
struct declared_type {
  std::int64_t type = 0;  // ONNX's number; 0: not said
  bool has_shape = false;
  model::shape shape{};  // -1: an open dimension
};

struct description {
  std::string source{};  // the file or "builtin:NAME": messages begin with it
  std::int64_t opset = 17;
  std::vector<value_info> inputs{};
  std::vector<std::string> outputs{};
  std::map<std::string, tensor> constants{};
  std::vector<node> nodes{};
  std::vector<std::pair<std::string, declared_type>> declared{};  // inference refuses what contradicts it
};

// Returns the number of elements of a shape. Throws input_error naming `what` if a dimension is negative or beyond
// op::most_extent, or if there are more than op::most_rank. Elements of eight bytes must fit 2^62 bytes.
[[nodiscard]] std::int64_t element_count(const description& m, const std::string& what, const shape& s);

// Returns the attribute, or the fallback if the node does not have it. Throws input_error if it has another type.
template <class T>
[[nodiscard]] T attribute_or(const description& m, const node& n, const std::string& name, T fallback);

// Returns "1x3x224x224"; "scalar" for no dimensions.
[[nodiscard]] std::string text_of(const shape& s);
// Returns the node's name and operator for messages: "node 'NAME' (Conv)".
[[nodiscard]] std::string called(const node& n);

}  // namespace berth::model
#pragma GCC visibility pop
