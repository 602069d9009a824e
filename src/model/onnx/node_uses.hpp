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

// A second run may give something else: the node is random, of a domain that is not ONNX's, or has a sub-graph with
// such a node. A Dropout counts in a sub-graph only, whether it trains or not.
[[nodiscard]] bool runs_once(const onnx::NodeProto& n);

// Fills made.before from made.graph and made.node_of: nodes of the file that are none of the graph pass on what they
// wait for.
void add_before(shapes_graph& made, const onnx::GraphProto& g);

}  // namespace berth::model
