// recompute: a budget of memory that an order does not keep. Each value is kept, made again, or moved.
//
// A value that is wanted much later is dropped, and its producer runs again before the next use; or it is copied out to
// a slow memory and in again. Either costs time, and lowers what is live between. Which it is, and whose values go, is
// one search: by bytes freed where too much is live, for the cost of what runs again (a value's producer, and in turn
// those of its operands that would have to be kept for it) or of the time waited for copies (steps.hpp). The planner of
// several memories (plan/moves.hpp), which moves only and keeps the order, gives it one of its starts.
//
// A heuristic: the budget is kept, the steps have passed verify_steps(), and the cost is counted by spending_of(); that
// no other steps cost less is not proved. `bound` is: no steps at all need less.
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
  std::vector<std::uint32_t> once{};  // but not these, in whatever order: what is random, what nothing is known of
  // To a slow memory without end; none: nothing moves. Inputs and results may move, but for what is written through a
  // view; in graphs of several lanes nothing does. What is wanted in the end is in the fast memory then.
  std::optional<transfer> move{};
};

// The bytes that each node reads and writes: what a run costs where memory is what it waits for.
[[nodiscard]] std::vector<double> default_costs(const graph& g);

struct recomputed {
  std::vector<std::uint32_t> steps;  // nodes, and copies (steps.hpp)
  rewritten after;                   // the graph of the steps
  graph_plan plan;                   // of after.graph
  bytes given_arena = 0;             // of the given graph
  double given_cost = 0;             // of one run of each node
  double extra_cost = 0;             // of what runs again, and of waiting for copies
  double waited = 0;                 // the part of it that is waiting
  bytes copied = 0;                  // both ways
  plan::plan slow;                   // where copies out lie in the slow memory, by their order among the steps
  bytes bound = 0;                   // no order, whatever runs again, has a smaller arena
  std::uint32_t holder = 0;  // the node that needs so much; the number of nodes where it is the start or the end
  bool within = false;       // the arena keeps the budget; where not, this is the smallest that was found
};

// Steps whose arena is within `budget`, at little extra cost: none where an order alone does it. Errors: as
// find_order(); a node in `once` that is not there (invalid_input, with it); not one cost a node, or one that is
// negative or not a number (invalid_input, with the node); a bandwidth that is not a number above 0 or a latency that
// is not one from 0 (invalid_input); costs and times of copies that come to more than 2^992 (invalid_input).
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
