// rewrite: the graph that a list of steps describes.
//
// A step is a node of the given graph; nodes run in the order of the steps. A node may stand there more than once: it
// then runs again, and whoever reads its results behind that reads the new ones. The results of the second run of "n"
// are called "n#2", and so on.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <span>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/graph.hpp"

namespace berth::schedule {

struct rewritten {
  berth::graph graph;
  // By value of the given graph: the value that has its bytes (of what runs again: the last one). Views that nobody
  // reads come last.
  std::vector<value_id> value_of;
};

// Inputs, constants, externals and states come first, in the given order, then the nodes with their views. Lanes,
// workspaces, in-place operands, separations and outputs are those of the given graph. Error: invalid_input, with the
// step's index: no such node, a node that reads what has not run yet, a node that writes through a view and runs again.
// Whether every read sees what it saw in the given order is verify_steps()'s question. Contract: g.fault().ok().
// O(values + nodes + edges + steps), and for a writing node the number of its root's views.
[[nodiscard]] result<rewritten> rewrite(const graph& g, std::span<const std::uint32_t> steps);

}  // namespace berth::schedule
#pragma GCC visibility pop
