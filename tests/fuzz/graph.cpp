// The graph's builder and its planner: every graph built has a fault or a plan that runs right. Right means as the same
// graph without any reuse (tests/graph/random_graph.hpp).
#include <numeric>

#include "berth/graph/graph_plan.hpp"
#include "berth/schedule/recompute.hpp"
#include "fuzz/graphs.hpp"
#include "graph/random_graph.hpp"

using namespace berth;

namespace {

// Other orders of the nodes, and nodes that run again: each passes the checks that share nothing with the search.
void reorder(const graph& g, const rules::placement& rules) {
  const schedule::options o{.work = plan::effort::fast, .placing = {.work = plan::effort::fast}, .rules = rules};
  graph_fault why;
  const auto found = schedule::find_order(g, o, &why);
  fuzz::require(found.has_value(), found ? "" : found.error().what);
  const auto sound = [&](const std::vector<std::uint32_t>& steps, const schedule::rewritten& after,
                         const graph_plan& plan) {
    const auto broken = schedule::verify_steps(g, steps);
    fuzz::require(!broken, broken ? broken->rule : "");
    const graph_fault wrong = verify_plan(after.graph, plan, rules);
    fuzz::require(wrong.ok(), wrong.text);
  };
  sound(found->steps, found->after, found->plan);
  fuzz::require(found->plan.arena() <= found->given_plan.arena(), "no order is worse than the given one");
  fuzz::require(found->lower_bound <= found->plan.arena(), "a bound over all orders is below each");
  const auto again = schedule::recompute_within(g, found->plan.arena() / 2, {.order = o, .move = schedule::transfer{}});
  if (!again) return;
  sound(again->steps, again->after, again->plan);
  fuzz::require(again->bound <= again->plan.arena(), "a bound is below what was found");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const graph g = fuzz::graph_maker{{data, size}}.made();
  rules::placement rules = rules::unconstrained();
  rules.start_alignment = 4;
  graph_fault why;
  const auto plan = plan_graph(g, {.search = {.work = plan::effort::fast}, .rules = rules, .verify = false}, &why);
  if (!g.fault().ok()) {
    fuzz::require(!plan && !why.text.empty(), "a graph with a fault has no plan");
    return 0;
  }
  if (!plan) return fuzz::require(!fuzz::can_run(g), "a small graph has a plan"), 0;
  const graph_fault wrong = verify_plan(g, *plan, rules);
  fuzz::require(wrong.ok(), wrong.text);
  const auto back = load_plan(save_plan(*plan), g, rules);
  fuzz::require(back && back->offset_of == plan->offset_of, "a plan comes back as it was written");
  if (!fuzz::can_run(g)) return 0;
  std::vector<std::uint32_t> order(g.nodes().size());
  std::iota(order.begin(), order.end(), 0u);
  fuzz::require(test::run_with_plan(g, *plan, order) == test::run_without_reuse(g), "a planned graph runs right");
  reorder(g, rules);
  return 0;
}
