#include "berth/schedule/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "berth/schedule/verify.hpp"
#include "schedule/dropping.hpp"
#include "schedule/net.hpp"
#include "schedule/timeline.hpp"

namespace berth::schedule {
namespace {

const rules::placement& rules_of(const recompute_options& o) {
  return o.order.rules ? *o.order.rules : rules::host();
}

// Nodes that may run again: they have results of their own only, and nobody writes into what they read or make.
std::vector<std::uint8_t> repeatable(const graph_structure& g, const std::vector<std::uint32_t>& keep) {
  std::vector<std::uint8_t> written(g.values.size(), 0);
  for (const view_record& v : g.views) {
    if (v.writer != 0) written[g.values[v.value].root] = 1;
  }
  std::vector<std::uint8_t> may(g.nodes.size(), 1);
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].outputs == 0) may[n] = 0;
    for (const auto values : {g.inputs(g.nodes[n]), g.outputs(g.nodes[n])}) {
      for (const std::uint32_t v : values) may[n] = may[n] & (written[g.values[v].root] == 0 ? 1 : 0);
    }
  }
  for (const std::uint32_t n : keep) may[n] = 0;
  return may;
}

// What every order needs, whatever runs again: the operands and results of one node, what is there at the start, what
// must be there in the end.
std::pair<bytes, std::uint32_t> bound_of(const net& n) {
  bytes end = n.base;
  for (std::uint32_t r = 0; r < n.root.size(); ++r) end += n.stays[r] != 0 ? n.root[r] : 0;
  std::pair<bytes, std::uint32_t> most{std::max(n.at_start, end), n.size()};
  for (std::uint32_t v = 0; v < n.size(); ++v) {
    bytes own = n.base + n.makes[v] + n.extra[v];
    for (const std::uint32_t r : n.uses[v]) own += n.root[r];
    if (!n.takes[v].empty()) own -= n.root[n.takes[v].front()];
    if (own > most.first) most = {own, v};
  }
  most.first -= std::min(most.first, n.slack);
  return most;
}

// All that answers for one graph share.
struct question {
  const graph& g;
  const recompute_options& o;
  net n;
  ordered start;
  std::vector<double> cost;
  std::vector<std::uint8_t> may;
  std::pair<bytes, std::uint32_t> bound;
};

result<question> ask(const graph& g, const recompute_options& o, graph_fault* why) {
  auto start = find_order(g, o.order, why);
  if (!start) return start.error();
  std::vector<double> cost = o.cost.empty() ? default_costs(g) : o.cost;
  if (cost.size() != g.nodes().size()) {
    return error{errc::invalid_input, "schedule: not one cost a node", cost.size()};
  }
  for (std::size_t n = 0; n < cost.size(); ++n) {
    if (!(cost[n] >= 0) || std::isinf(cost[n])) {
      return error{errc::invalid_input, "schedule: a cost is negative or not a number", n};
    }
  }
  net n = *make_net(g.structure(), rules_of(o), o.order.keep, o.order.before);
  const auto bound = bound_of(n);
  return question{g,    o, std::move(n), std::move(*start), std::move(cost), repeatable(g.structure(), o.order.keep),
                  bound};
}

result<recomputed> answer_of(const question& q, std::vector<std::uint32_t> steps, graph_fault* why) {
  if (verify_steps(q.g, steps, q.o.order.keep, q.o.order.before)) {
    return error{errc::internal, "schedule: steps of ours did not pass verify_steps()", 0};
  }
  auto after = rewrite(q.g, steps);
  if (!after) return after.error();
  auto plan = plan_graph(after->graph, {.search = q.o.order.placing, .rules = rules_of(q.o)}, why);
  if (!plan) return plan.error();
  recomputed made;
  made.after = std::move(*after);
  made.plan = std::move(*plan);
  made.given_arena = q.start.given_plan.arena();
  for (const double c : q.cost) made.given_cost += c;
  std::vector<std::uint8_t> ran(q.g.nodes().size(), 0);
  for (const std::uint32_t n : steps) made.extra_cost += std::exchange(ran[n], 1) != 0 ? q.cost[n] : 0;
  made.steps = std::move(steps);
  made.bound = q.bound.first;
  made.holder = q.bound.second;
  return made;
}

// Steps traced to make an answer cheaper: nothing, some tenths of a second, some seconds.
std::uint64_t work_of(plan::effort work) {
  switch (work) {
    case plan::effort::fast: return 0;
    case plan::effort::normal: break;
    case plan::effort::best: return 400'000'000;
  }
  return 5'000'000;
}

result<recomputed> within(const question& q, bytes budget, graph_fault* why) {
  auto best = answer_of(q, q.start.steps, why);
  if (!best) return best;
  best->within = best->plan.arena() <= budget;
  if (best->within || q.bound.first > budget) return best;
  // Places may need more than what is live: then less may be live.
  bytes aim = budget;
  std::uint64_t work = work_of(q.o.order.work);
  for (int tries = 0; tries < 5 && !best->within; ++tries) {
    const auto steps = drop_until(q.n, q.start.steps, aim, q.cost, q.may, work, q.o.order.stop);
    auto next = answer_of(q, steps, why);
    if (!next) return next;
    next->within = next->plan.arena() <= budget;
    const bytes arena = next->plan.arena();
    if (arena < best->plan.arena()) best = std::move(next);
    const bytes over = arena > budget ? arena - budget : 0;
    if (over == 0 || over >= aim) break;
    aim -= over;
  }
  return best;
}

// The best answers at budgets between the bound and what the order alone needs.
result<std::vector<recomputed>> answers(const question& q, std::uint32_t points, graph_fault* why) {
  std::vector<recomputed> found;
  auto first = answer_of(q, q.start.steps, why);
  if (!first) return first.error();
  first->within = true;
  const bytes most = first->plan.arena();
  found.push_back(std::move(*first));
  for (std::uint32_t i = 1; i <= points && most > q.bound.first; ++i) {
    auto next = within(q, most - (most - q.bound.first) / points * i, why);
    if (!next) return next.error();
    found.push_back(std::move(*next));
  }
  // By falling arena, of those that cost less than all smaller ones.
  std::ranges::stable_sort(found, [](const recomputed& a, const recomputed& b) {
    return std::pair{a.plan.arena(), a.extra_cost} < std::pair{b.plan.arena(), b.extra_cost};
  });
  std::vector<recomputed> front;
  for (recomputed& r : found) {
    if (front.empty() || r.extra_cost < front.back().extra_cost) front.push_back(std::move(r));
  }
  std::ranges::reverse(front);
  return front;
}

}  // namespace

std::vector<double> default_costs(const graph& g) {
  std::vector<double> cost;
  for (const node& n : g.nodes()) {
    double sum = 0;
    for (const auto* values : {&n.inputs, &n.outputs}) {
      for (const value_id v : *values) sum += static_cast<double>(g[v].size);
    }
    cost.push_back(sum);
  }
  return cost;
}

result<recomputed> recompute_within(const graph& g, bytes budget, const recompute_options& o, graph_fault* why) {
  const auto q = ask(g, o, why);
  if (!q) return q.error();
  return within(*q, budget, why);
}

result<recomputed> recompute_for(const graph& g, double extra, const recompute_options& o, graph_fault* why) {
  if (!(extra >= 0)) return error{errc::invalid_input, "schedule: an extra cost is negative or not a number", 0};
  auto front = recompute_front(g, 8, o, why);
  if (!front) return front.error();
  // Of rising cost and falling arena: the last that can be afforded. The first costs nothing.
  std::size_t best = 0;
  for (std::size_t i = 0; i < front->size(); ++i) {
    if ((*front)[i].extra_cost <= extra) best = i;
  }
  return std::move((*front)[best]);
}

result<std::vector<recomputed>> recompute_front(const graph& g, std::uint32_t points, const recompute_options& o,
                                                graph_fault* why) {
  const auto q = ask(g, o, why);
  if (!q) return q.error();
  return answers(*q, std::max(points, 1u), why);
}

}  // namespace berth::schedule
