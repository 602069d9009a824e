// recompute: fits a graph into a memory budget that no order alone keeps. Each value is kept, recomputed or moved.
//
// A value with a late next use may be dropped; its producer then runs again before that use. Or the value is copied out
// to a slow memory and in again. Either costs time, and lowers the live bytes between. One search chooses the values
// and the ways, by bytes freed where too much is live, per cost. The cost is that of the nodes that run again, or the
// time waited for copies (steps.hpp). A node that runs again may need operands whose producers run again in turn. One
// start of the search comes from the planner of several memories (plan/plan.hpp), which only moves values and keeps
// the order.
//
// This is a heuristic. It keeps the budget, the steps have passed verify_steps(), and spending_of() counts the cost. It
// does not prove that no other steps cost less. `bound` is proved: no steps at all need less.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <vector>

#include "berth/schedule/order.hpp"
#include "berth/schedule/steps.hpp"

namespace berth::schedule {

struct recompute_options {
  options order{};                    // of the order from which it starts; its `keep` runs once
  std::vector<double> cost{};         // by node: of one run, in any unit; empty: default_costs()
  bool again = true;                  // nodes may run again
  std::vector<std::uint32_t> once{};  // except these, in any order: random or unknown nodes
  // Moves values to a slow memory without a limit; none: no value moves. Inputs and results may move, except values
  // written through a view. In graphs of several lanes no value moves. The values needed at the end are then in the
  // fast memory.
  std::optional<transfer> move{};
};

// Returns the bytes that each node reads and writes: the cost of a run that waits for memory.
[[nodiscard]] std::vector<double> default_costs(const graph& g);

struct recomputed {
  std::vector<std::uint32_t> steps;  // nodes, and copies (steps.hpp)
  rewritten after;                   // the graph of the steps
  graph_plan plan;                   // of after.graph
  bytes given_arena = 0;             // of the given graph
  double given_cost = 0;             // of one run of each node
  double extra_cost = 0;             // of repeated runs and of waiting for copies
  double waited = 0;                 // the part of extra_cost that is waiting
  bytes copied = 0;                  // both ways
  plan::plan slow;                   // places of the copies out in the slow memory, by their order among the steps
  bytes bound = 0;                   // no order, with any repeated runs, has a smaller arena
  std::uint32_t holder = 0;          // the node that needs `bound`; the number of nodes: the start or the end
  bool within = false;               // the arena keeps the budget; else this is the smallest found
};

// Returns steps whose arena is within `budget`, at little extra cost: none if an order alone suffices. Errors: those of
// find_order(), and invalid_input with the culprit in these cases:
// * A node in `once` does not exist.
// * The costs are not one a node, negative or not a number.
// * The bandwidth is not a number above 0, or the latency not a number from 0 up.
// * The costs and copy times add up to more than 2^992.
//
// Deterministic except for `stop`. O(steps run again x (nodes + edges)).
[[nodiscard]] result<recomputed> recompute_within(const graph& g, bytes budget, const recompute_options& o = {},
                                                  graph_fault* why = nullptr);

// Returns the smallest arena found for at most `extra` of cost. Tries eight budgets between the bound and the arena of
// an order alone. Errors: those of recompute_within(), and an `extra` that is negative or not a number.
[[nodiscard]] result<recomputed> recompute_for(const graph& g, double extra, const recompute_options& o = {},
                                               graph_fault* why = nullptr);

// Returns the answers that no other answer beats in both arena and cost, by falling arena. Tries `points` budgets
// between the arena of an order alone and the bound.
[[nodiscard]] result<std::vector<recomputed>> recompute_front(const graph& g, std::uint32_t points = 8,
                                                              const recompute_options& o = {},
                                                              graph_fault* why = nullptr);

}  // namespace berth::schedule
#pragma GCC visibility pop
