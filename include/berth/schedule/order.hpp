// find_order: searches an order of a graph's nodes with a smaller arena, and a bound over all orders.
//
// It minimizes the arena that plan_graph() places. So views, in-place results, workspaces, states and the placement
// rules count. The search minimizes the peak of live bytes; the planner then places the values. A new order is returned
// only if its arena is smaller than that of the given one.
//
// `lower_bound` holds for every order that keeps the reads of the given one (docs/schedule.md has the rules). In each
// such order at least so many bytes are live at some node, for any in-place reuse. `optimal` means that the arena has
// exactly this size. The bound is up to one alignment too low if sizes are not multiples of the alignment. It does not
// know which value lies highest and so needs no rounding.
//
// Several lanes: nodes stay on their lanes, and the order within a lane changes. Orders are searched as if there were
// one lane. One is taken if the arena, by happens-before, is smaller. The given order stays if nodes of a graph with
// several lanes write through views. Lanes may order such reads and writes in ways that the graph does not show.
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/graph_plan.hpp"
#include "berth/plan/solve.hpp"
#include "berth/rules/placement.hpp"
#include "berth/schedule/steps.hpp"

namespace berth::schedule {

struct options {
  plan::effort work = plan::effort::normal;  // of the order's search: hundredths of a second, tenths, or ten seconds
  plan::options placing{};                   // of the planner, for each arena
  std::optional<rules::placement> rules{};   // of every value; none: rules::host()
  // Nodes with effects that the graph does not show: a random state, a log, memory that two externals share. They keep
  // the given order among themselves and run once. So do nodes without results, always.
  std::vector<std::uint32_t> keep{};
  // Pairs whose first node runs before the second for a reason that the graph does not show: values that take no
  // memory, or effects. The given order satisfies them.
  std::vector<node_pair> before{};
  const std::atomic<bool>* stop = nullptr;  // once true, the search returns the best order so far
};

struct ordered {
  std::vector<std::uint32_t> steps;  // nodes of the given graph, in their new order
  rewritten after;                   // the graph in that order
  graph_plan given_plan;             // of the given graph
  graph_plan plan;                   // of after.graph
  bytes given_peak = 0;              // the most bytes live in the given order, as with one lane; aligned sizes
  bytes peak = 0;                    // the same in the order found
  bytes lower_bound = 0;             // no order has a smaller arena
  std::uint64_t states = 0;          // expanded by the exact search

  [[nodiscard]] bool optimal() const noexcept { return plan.arena() == lower_bound; }
  [[nodiscard]] bool changed() const noexcept { return plan.arena() < given_plan.arena(); }
};

// Returns an order that is never worse than the given one, which is the answer if no better one is found. The steps
// have passed verify_steps(). Deterministic except for `stop` and a deadline in `placing`.
//
// Errors: the graph's fault, those of plan_graph(), and overflow if the sizes together exceed 2^62. Also invalid_input
// for a missing node in `keep` or `before`, or for a pair that the given order reverses.
[[nodiscard]] result<ordered> find_order(const graph& g, const options& o = {}, graph_fault* why = nullptr);

}  // namespace berth::schedule
#pragma GCC visibility pop
