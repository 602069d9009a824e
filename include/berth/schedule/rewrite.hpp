// rewrite: the graph that a list of steps describes.
//
// Nodes run in the order of the steps (steps.hpp). A node may occur more than once: it then runs again, and later
// readers read the new results. The results of the second run of "n" are called "n#2", and so on. A copy of "x" out to
// the slow memory is a node "out x" that reads x. A copy in is a node "in x" that reads no value here, and makes a new
// x of that name.
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
  // By value of the given graph: the value that has its bytes. For a value that is recomputed or copied in, this is the
  // last one. Unread views come last.
  std::vector<value_id> value_of;
};

// Returns the graph of the steps. Inputs, constants, externals and states come first, in the given order, then the
// nodes with their views. Lanes, workspaces, in-place operands, separations and outputs are those of the given graph.
// Error: invalid_input, with the step's index, in these cases:
// * A number is no step.
// * A node reads a value before its producer has run.
// * A node writes through a view and runs again.
// * A copied value is outside the arena, a state or a view, or is written through a view.
//
// Does not check that every read sees the same bytes as in the given order: verify_steps() does. Contract:
// g.fault().ok(). O(values + nodes + edges + steps, and views log views), and for a writing node the views that begin
// with its own.
[[nodiscard]] result<rewritten> rewrite(const graph& g, std::span<const std::uint32_t> steps);

}  // namespace berth::schedule
#pragma GCC visibility pop
