// Compute graphs of ggml, as its allocator sees them: traces of the schema ggml-graph-trace/1.
//
// One JSON object a line: a header, then the tensors (leafs, nodes in execution order, and the others that the graph
// refers to). Metadata only. Facts that ggml leaves out are as in its allocator: an unread result or view survives the
// last node. An operator marked in-place may take over any operand of its own layout.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <string>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/rules/placement.hpp"

namespace berth::model {

struct ggml_trace {
  std::string path;
  std::string name;  // of the graph
  berth::graph graph;
  rules::placement rules;            // ggml's alignment, of starts and sizes
  std::vector<value_id> value_of;    // by tensor id
  std::vector<std::uint32_t> id_of;  // by value: the tensor's id, or that of the tensor it was made for
  // Nodes that may not run twice (schedule::recompute_options): the application's own functions, optimiser steps, and
  // unknown operators. The graph keeps nodes that write through a view (CPY, SET_ROWS, in place) from it.
  std::vector<std::uint32_t> once;
};

// Throws input_error, with the line, the tensor and the reason. Time and memory are linear in the file; a line is held
// to the bounds of JSON (docs/model.md).
[[nodiscard]] ggml_trace read_ggml_trace(const std::string& path);

}  // namespace berth::model
#pragma GCC visibility pop
