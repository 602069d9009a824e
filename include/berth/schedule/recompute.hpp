// recompute: nodes may run again, so that what they make need not be kept.
//
// A value that is wanted much later is dropped, and its producer runs again before the next use. That costs time, and
// lowers what is live between. Whose values go is chosen by bytes freed where too much is live, for the cost of what
// runs again (a value's producer, and in turn those of its operands that would have to be kept for it).
//
// A heuristic: the budget is kept, the steps have passed verify_steps(), and the cost is counted; that no other steps
// cost less is not proved. `bound` is: no steps at all need less.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <vector>

#include "berth/schedule/order.hpp"

namespace berth::schedule {

struct recompute_options {
  options order{};             // of the order from which it starts; its `keep` runs once
  std::vector<double> cost{};  // by node: of one run, in any unit; empty: default_costs()
};

// The bytes that each node reads and writes: what a run costs where memory is what it waits for.
[[nodiscard]] std::vector<double> default_costs(const graph& g);

struct recomputed {
  std::vector<std::uint32_t> steps;
  rewritten after;           // the graph of the steps
  graph_plan plan;           // of after.graph
  bytes given_arena = 0;     // of the given graph
  double given_cost = 0;     // of one run of each node
  double extra_cost = 0;     // of what runs again
  bytes bound = 0;           // no order, whatever runs again, has a smaller arena
  std::uint32_t holder = 0;  // the node that needs so much; the number of nodes where it is the start or the end
  bool within = false;       // the arena keeps the budget; where not, this is the smallest that was found
};

// Steps whose arena is within `budget`, at little extra cost: none where an order alone does it. Errors: as
// find_order(); not one cost a node, or one that is negative or not a number (invalid_input, with the node).
// Deterministic but for `stop`. O(steps run again x (nodes + edges)).
[[nodiscard]] result<recomputed> recompute_within(const graph& g, bytes budget, const recompute_options& o = {},
                                                  graph_fault* why = nullptr);

// The smallest arena that is found for no more than `extra` of cost: eight budgets between the bound and what an order
// alone needs. Errors: as recompute_within(), and an `extra` that is negative or not a number.
[[nodiscard]] result<recomputed> recompute_for(const graph& g, double extra, const recompute_options& o = {},
                                               graph_fault* why = nullptr);

// Answers of which none is beaten in both arena and cost, by falling arena: what is found at `points` budgets between
// what an order alone needs and the bound.
[[nodiscard]] result<std::vector<recomputed>> recompute_front(const graph& g, std::uint32_t points = 8,
                                                              const recompute_options& o = {},
                                                              graph_fault* why = nullptr);

}  // namespace berth::schedule
#pragma GCC visibility pop
