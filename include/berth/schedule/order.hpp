// find_order: an order of a graph's nodes under which its arena is smaller, and what is proved of all orders.
//
// What is made smaller is the arena that plan_graph() places: views, in-place results, workspaces, states and the
// placement rules count. The search looks at the most bytes live in an order; the planner then places the values, and
// an order is only given back where the arena it gets is smaller than that of the given one.
//
// `lower_bound` holds for every order that keeps the reads of the given one (docs/schedule.md has the rules): so many
// bytes are live at some node of each, whatever its results take over. `optimal` is said where the arena has just that.
// Where sizes are not multiples of the alignment the bound gives up to one alignment away: which value lies highest,
// and so needs no rounding, it does not ask.
//
// Several lanes: nodes stay on their lanes, and the order within a lane changes. Orders are searched as though there
// were one lane, and taken where the arena, by happens-before, is smaller. Where nodes of a graph with several lanes
// write through views the given order stays: lanes may order reads before writings in ways that the graph does not say.
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
#include "berth/schedule/rewrite.hpp"
#include "berth/schedule/verify.hpp"

namespace berth::schedule {

struct options {
  plan::effort work = plan::effort::normal;  // of the order's search: some hundredths, tenths of a second, ten seconds
  plan::options placing{};                   // of the planner, for each arena
  std::optional<rules::placement> rules{};   // of every value; none: rules::host()
  // Nodes with effects that the graph does not show (a random state, a log, memory that two externals share): they keep
  // the given order among themselves and run once. Nodes without results do so anyway.
  std::vector<std::uint32_t> keep{};
  // Pairs of which the first node runs before the second, although the graph does not say so (by values that take no
  // memory, by effects); the given order does.
  std::vector<node_pair> before{};
  const std::atomic<bool>* stop = nullptr;  // once true, the best so far is taken
};

struct ordered {
  std::vector<std::uint32_t> steps;  // nodes of the given graph, in the order in which they run
  rewritten after;                   // the graph in that order
  graph_plan given_plan;             // of the given graph
  graph_plan plan;                   // of after.graph
  bytes given_peak = 0;              // the most live in the given order, were there one lane; aligned sizes
  bytes peak = 0;                    // the same in the order found
  bytes lower_bound = 0;             // no order has a smaller arena
  std::uint64_t states = 0;          // that the exact search has expanded

  [[nodiscard]] bool optimal() const noexcept { return plan.arena() == lower_bound; }
  [[nodiscard]] bool changed() const noexcept { return plan.arena() < given_plan.arena(); }
};

// Never worse than the given order, which is the answer where nothing better is found. The steps have passed
// verify_steps(). Deterministic but for `stop` and a deadline in `placing`. Errors: the graph's fault, a node in `keep`
// or `before` that is not there, a pair that the given order turns round (invalid_input), sizes above 2^62 together
// (overflow), and what plan_graph() says.
[[nodiscard]] result<ordered> find_order(const graph& g, const options& o = {}, graph_fault* why = nullptr);

}  // namespace berth::schedule
#pragma GCC visibility pop
