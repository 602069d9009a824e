// rewrite: the graph that a list of steps describes.
//
// Nodes run in the order of the steps (steps.hpp). A node may stand there more than once: it then runs again, and
// whoever reads its results behind that reads the new ones. The results of the second run of "n" are called "n#2", and
// so on. A copy of "x" out to the slow memory is a node "out x" that reads x; a copy in is a node "in x" that reads
// nothing here, and makes a new x of that name.
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
  // By value of the given graph: the value that has its bytes (of what runs again or comes in: the last one). Views
  // that nobody reads come last.
  std::vector<value_id> value_of;
};

// Inputs, constants, externals and states come first, in the given order, then the nodes with their views. Lanes,
// workspaces, in-place operands, separations and outputs are those of the given graph. Error: invalid_input, with the
// step's index: no such step, a node that reads what has not run yet, a node that writes through a view and runs again,
// a copy of what does not lie in the arena, is a state or a view, or is written through one.
// Whether every read sees what it saw in the given order is verify_steps()'s question. Contract: g.fault().ok().
// O(values + nodes + edges + steps, and views log views), and for a writing node the views that begin with its own.
[[nodiscard]] result<rewritten> rewrite(const graph& g, std::span<const std::uint32_t> steps);

}  // namespace berth::schedule
#pragma GCC visibility pop
