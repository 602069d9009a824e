#include "berth/schedule/order.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "schedule/arrange.hpp"
#include "schedule/net.hpp"
#include "schedule/valley.hpp"

namespace berth::schedule {
namespace {

allowance allowance_of(plan::effort level, const std::atomic<bool>* stop) {
  switch (level) {
    case plan::effort::fast: return {20'000, 2'000'000, 10'000'000, stop};
    case plan::effort::normal: break;
    case plan::effort::best: return {20'000'000, 2'000'000'000, 1'000'000'000, stop};
  }
  return {1'200'000, 20'000'000, 40'000'000, stop};
}

// Lanes order some accesses that the graph does not show (see the header).
bool must_stay(const graph_structure& g) {
  const bool lanes = std::ranges::any_of(g.nodes, [&](const auto& n) { return n.stream != g.nodes.front().stream; });
  return lanes && std::ranges::any_of(g.views, [](const view_record& v) { return v.writer != 0; });
}

// Returns a bound on every arena. The highest of the values that are live together needs no rounding. It is unknown
// which one that is. But while a node runs, only memory that it cannot reach, and memory that it has not outlived, can
// be live beside it.
bytes bound_of_arena(const net& n, const arranged& found, allowance& allowed) {
  bytes bound = found.bound - std::min(found.bound, n.slack);
  if (n.slack == 0) return bound;
  std::vector<bytes> steps;
  (void)peak_of(n, found.order, &steps);
  allowed.edges += 2'000'000;
  for (std::size_t i = 0, asked = 0; i < steps.size() && asked < 8; ++i) {
    if (steps[i] < found.bound || bound >= found.bound) continue;
    ++asked;
    const std::uint32_t v = found.order[i];
    std::vector<std::uint8_t> behind(n.size(), 0);
    for (const std::uint32_t u : std::span{found.order}.subspan(i)) {
      for (const std::uint32_t p : n.before[u]) behind[u] = behind[u] | behind[p] | (p == v ? 1 : 0);
    }
    bytes loose = n.loose_extra[v];
    for (std::uint32_t r = 0; r < n.root.size(); ++r) {
      if (n.producer[r] == no_node || behind[n.producer[r]] == 0) loose = std::max(loose, n.loose[r]);
    }
    const bytes least = least_step(n, v, allowed.edges);
    bound = std::max(bound, least - std::min(least, loose));
  }
  return bound;
}

// Places the graph in the order found. With thousands of values within 1/256 of their bound after a sweep, the gain of
// a search is not worth its second. The gain is 0.03 % of the arena with 10,000 nodes (bench_schedule_order).
result<graph_plan> place(const graph& g, const graph_options& planning, plan::effort level, graph_fault* why) {
  constexpr std::size_t many = 4096;
  if (g.nodes().size() > many && level != plan::effort::best && planning.search.work == plan::effort::normal) {
    graph_options quick = planning;
    quick.search.work = plan::effort::fast;
    auto made = plan_graph(g, quick, why);
    if (made && made->arena() - made->lower_bound() <= made->lower_bound() / 256) return made;
  }
  return plan_graph(g, planning, why);
}

}  // namespace

result<ordered> find_order(const graph& g, const options& o, graph_fault* why) {
  if (!g.fault().ok()) {
    if (why != nullptr) *why = g.fault();
    return to_error(g.fault());
  }
  for (const std::uint32_t n : o.keep) {
    if (n >= g.nodes().size()) return error{errc::invalid_input, "schedule: a node to be kept is none of the graph", n};
  }
  for (const auto& [first, second] : o.before) {
    if (first >= second || second >= g.nodes().size()) {
      return error{errc::invalid_input, "schedule: a pair of nodes that the given order does not keep", second};
    }
  }
  const rules::placement& rules = o.rules ? *o.rules : rules::host();
  const auto n = make_net(g.structure(), rules, o.keep, o.before);
  if (!n) return error{errc::overflow, "schedule: the sizes of all values exceed 2^62 bytes", 0};
  const graph_options planning{.search = o.placing, .rules = rules};
  auto given_plan = plan_graph(g, planning, why);
  if (!given_plan) return given_plan.error();

  ordered answer;
  std::vector<std::uint32_t> given(g.nodes().size());
  std::iota(given.begin(), given.end(), 0u);
  allowance allowed = allowance_of(o.work, o.stop);
  const std::uint64_t states = allowed.states;
  const arranged found = arrange(*n, given, allowed);
  answer.states = states - allowed.states;
  answer.given_peak = peak_of(*n, given);
  answer.lower_bound = bound_of_arena(*n, found, allowed);
  answer.given_plan = *given_plan;
  if (found.order != given && !must_stay(g.structure()) && found.peak < given_plan->arena() + n->slack) {
    if (verify_steps(g, found.order, o.keep, o.before)) {
      return error{errc::internal, "schedule: an order of ours did not pass verify_steps()", 0};
    }
    auto after = rewrite(g, found.order);
    if (!after) return after.error();
    auto plan = place(after->graph, planning, o.work, why);
    if (plan && plan->arena() < given_plan->arena()) {
      answer.steps = found.order;
      answer.after = std::move(*after);
      answer.plan = std::move(*plan);
      answer.peak = found.peak;
      return answer;
    }
  }
  answer.steps = std::move(given);
  answer.after.graph = g;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) answer.after.value_of.push_back({v});
  answer.plan = std::move(*given_plan);
  answer.peak = answer.given_peak;
  return answer;
}

}  // namespace berth::schedule
