// Which nodes of a file anybody needs, and which wait for which.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>
#include <vector>

#include "berth/model/onnx.hpp"

namespace berth::model {

struct node_uses {
  std::vector<bool> used;                       // by node: somebody reads a result
  std::vector<std::set<std::string>> captured;  // by used node: names that its sub-graphs read of the graph around them
};
[[nodiscard]] node_uses uses_of(const onnx::GraphProto& g);

// Fills made.before from made.graph and made.node_of: nodes of the file that are none of the graph pass on what they
// wait for.
void add_before(shapes_graph& made, const onnx::GraphProto& g);

}  // namespace berth::model
