// Steps: the runs and copies of an execution in order; their cost, the graph that they describe, and their check.
//
// A step is a number. Numbers below the number of nodes are nodes, which may run more than once. The next ones, by
// value, are copies of the value out to a slow memory. The last ones, by value, are copies in from there. A copy in the
// slow memory stays there to the end, and may be copied in any number of times. Between its copy out and its copy in, a
// value that is still needed remains in place.
//
// With a transfer that overlaps, copies run beside nodes:
// * A copy out begins when the value exists. The list waits at the step for its end; the bytes are free from there on.
// * A copy in begins at its step. The first reader of the value waits for it.
// * One copy out and one copy in run at a time, in the order of the steps.
//
// Without overlap all nodes wait for each copy.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/graph/graph.hpp"

namespace berth::schedule {

struct transfer {
  double bandwidth = 1;  // bytes copied in one unit of cost, each way
  double latency = 0;    // units of cost, of each copy
  bool overlap = true;
};

enum class step_kind : std::uint8_t { node, out, in, none };
struct step_meaning {
  step_kind kind = step_kind::none;
  std::uint32_t index = 0;  // of the node or the value
};
[[nodiscard]] step_meaning meaning_of(const graph& g, std::uint32_t step) noexcept;
[[nodiscard]] std::uint32_t copy_out(const graph& g, value_id v) noexcept;
[[nodiscard]] std::uint32_t copy_in(const graph& g, value_id v) noexcept;

struct spending {
  double again = 0;   // the cost of all runs but the first of each node
  double waited = 0;  // waiting for copies, in units of cost
  bytes copied = 0;   // both ways
};
// Plays the steps. Without a transfer copies take no time. Contract: the steps have passed verify_steps(), and each
// node has a cost. O(steps + edges).
[[nodiscard]] spending spending_of(const graph& g, std::span<const std::uint32_t> steps, std::span<const double> cost,
                                   const std::optional<transfer>& link);

// --- the graph that a list of steps describes
//
// Nodes run in the order of the steps. A node may occur more than once: it then runs again, and later readers read the
// new results. The results of the second run of "n" are called "n#2", and so on. A copy of "x" out to the slow memory
// is a node "out x" that reads x. A copy in is a node "in x" that reads no value here, and makes a new x of that name.

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

// --- an independent check of a list of steps
//
// It solves nothing. With the code that made the steps it shares only their numbering (meaning_of()).
//
// It replays the given graph in its own order, byte range by byte range. It records the contents that each node finds
// in each operand: which node wrote which bytes. Then it replays the steps. A copy out records the contents of that
// moment, and a copy in restores them. Every run of a node must find the recorded contents. At the end, so must the
// readers of outputs, states and externals. By induction every node then computes the same results.

using node_pair = std::pair<std::uint32_t, std::uint32_t>;

struct step_violation {
  const char* rule = "";   // static text: what is wrong
  std::uint32_t step = 0;  // the step; the number of steps if the end is wrong
  std::uint32_t node = UINT32_MAX;
  std::uint32_t value = UINT32_MAX;  // the operand or output whose contents differ
};

// Returns the first violation, or nothing. Violations are:
// * A number that is no step.
// * A copy of a view, of a state or of a value outside the arena.
// * A copy out before the value exists, or a copy in before its copy out.
// * A node that never runs.
// * A node that runs again although it is in `keep` or `once`, writes through a view or has no results.
// * An operand or output with other contents.
// * Nodes of `keep`, or without results, in another order among themselves.
// * The second node of a pair in `before` if the first has not run.
//
// It does not check memory: verify_plan() does, for rewrite()'s graph. Contract: g.fault().ok(). O((nodes + steps +
// edges) log fragments).
[[nodiscard]] std::optional<step_violation> verify_steps(const graph& g, std::span<const std::uint32_t> steps,
                                                         std::span<const std::uint32_t> keep = {},
                                                         std::span<const node_pair> before = {},
                                                         std::span<const std::uint32_t> once = {});

}  // namespace berth::schedule
#pragma GCC visibility pop
