// The nodes of a file that are needed, and the pairs in which one waits for the other.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "berth/model/onnx.hpp"
#include "model/onnx/messages.hpp"

namespace berth::model {

struct node_uses {
  std::vector<bool> used;                       // by node: somebody reads a result
  std::vector<std::set<std::string>> captured;  // by used node: names that its sub-graphs read of the graph around them
};
[[nodiscard]] node_uses uses_of(const wire::graph& g);

// Returns whether a second run may differ: the node is random, of a domain other than ONNX's, or has a sub-graph with
// such a node. A Dropout counts in a sub-graph only, whether it trains or not.
[[nodiscard]] bool runs_once(const wire::node& n);

// Fills made.before from made.graph and made.node_of. Nodes of the file outside of the graph pass on the nodes that
// they wait for.
void add_before(shapes_graph& made, const wire::graph& g);

}  // namespace berth::model
