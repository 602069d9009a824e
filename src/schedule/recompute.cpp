#include "berth/schedule/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "berth/schedule/steps.hpp"
#include "schedule/dropping.hpp"
#include "schedule/net.hpp"
#include "schedule/timeline.hpp"

namespace berth::schedule {
namespace {

const rules::placement& rules_of(const recompute_options& o) {
  return o.order.rules ? *o.order.rules : rules::host();
}

// Returns, by value, whether a node writes into this root.
std::vector<std::uint8_t> written_in(const graph_structure& g) {
  std::vector<std::uint8_t> written(g.values.size(), 0);
  for (const view_record& v : g.views) {
    if (v.writer != 0) written[g.values[v.value].root] = 1;
  }
  return written;
}

// Returns the nodes that may run again: all results are their own, and no node writes into their operands or results.
std::vector<std::uint8_t> repeatable(const graph_structure& g, const recompute_options& o,
                                     const std::vector<std::uint8_t>& written) {
  if (!o.again) return std::vector<std::uint8_t>(g.nodes.size(), 0);
  std::vector<std::uint8_t> may(g.nodes.size(), 1);
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].outputs == 0) may[n] = 0;
    for (const auto values : {g.inputs(g.nodes[n]), g.outputs(g.nodes[n])}) {
      for (const std::uint32_t v : values) may[n] = may[n] & (written[g.values[v].root] == 0 ? 1 : 0);
    }
  }
  for (const auto* list : {&o.order.keep, &o.once}) {
    for (const std::uint32_t n : *list) may[n] = 0;
  }
  return may;
}

// Returns the roots that may lie in the slow memory.
std::vector<std::uint8_t> movable(const graph_structure& g, const net& n, const std::vector<std::uint8_t>& written) {
  const bool lanes = std::ranges::any_of(g.nodes, [&](const auto& v) { return v.stream != g.nodes.front().stream; });
  std::vector<std::uint8_t> may;
  for (const std::uint32_t v : n.value) may.push_back(lanes || written[v] != 0 ? 0 : 1);
  return may;
}

// Returns a bound for every order, with any repeated runs or moves. It covers the operands and results of one node, the
// values live at the start, and those needed at the end.
std::pair<bytes, std::uint32_t> bound_of(const net& n) {
  std::pair<bytes, std::uint32_t> most{std::max(n.at_start, n.live_at_end()), n.size()};
  for (std::uint32_t v = 0; v < n.size(); ++v) {
    bytes own = n.base + n.makes[v] + n.extra[v];
    for (const std::uint32_t r : n.uses[v]) own += n.root[r];
    if (!n.takes[v].empty()) own -= n.root[n.takes[v].front()];
    if (own > most.first) most = {own, v};
  }
  most.first -= std::min(most.first, n.slack);
  return most;
}

// Returns true if the cost of 2^32 steps is finite: beside an infinite sum the most expensive step would be free.
bool can_be_summed(const net& n, const std::vector<double>& cost, const std::optional<transfer>& link) {
  double all = 0;
  for (const double c : cost) all += c;
  for (const bytes size : n.root) all += link ? time_of(*link, size) : 0;
  return all <= std::numeric_limits<double>::max() / 0x1p32;
}

// The common data of all answers for one graph.
struct question {
  const graph& g;
  const recompute_options& o;
  net n;
  ordered start;
  std::vector<double> cost;
  std::vector<std::uint8_t> again;  // by node
  std::vector<std::uint8_t> moves;  // by root
  std::pair<bytes, std::uint32_t> bound;
};

result<question> ask(const graph& g, const recompute_options& o, graph_fault* why) {
  auto start = find_order(g, o.order, why);
  if (!start) return start.error();
  for (const std::uint32_t n : o.once) {
    if (n >= g.nodes().size()) {
      return error{errc::invalid_input, "schedule: a node that may run once only is none of the graph", n};
    }
  }
  std::vector<double> cost = o.cost.empty() ? default_costs(g) : o.cost;
  if (cost.size() != g.nodes().size()) {
    return error{errc::invalid_input, "schedule: not one cost a node", cost.size()};
  }
  for (std::size_t n = 0; n < cost.size(); ++n) {
    if (!(cost[n] >= 0) || std::isinf(cost[n])) {
      return error{errc::invalid_input, "schedule: a cost is negative or not a number", n};
    }
  }
  if (o.move && (!(o.move->bandwidth > 0) || std::isinf(o.move->bandwidth))) {
    return error{errc::invalid_input, "schedule: the bandwidth of moves is not a number above 0", 0};
  }
  if (o.move && (!(o.move->latency >= 0) || std::isinf(o.move->latency))) {
    return error{errc::invalid_input, "schedule: the latency of moves is negative or not a number", 0};
  }
  net n = *make_net(g.structure(), rules_of(o), o.order.keep, o.order.before);
  if (!can_be_summed(n, cost, o.move)) {
    return error{errc::invalid_input, "schedule: costs, or times of copies, are too great to be summed up", 0};
  }
  const auto bound = bound_of(n);
  const auto written = written_in(g.structure());
  auto again = repeatable(g.structure(), o, written);
  auto moves = movable(g.structure(), n, written);
  return question{g, o, std::move(n), std::move(*start), std::move(cost), std::move(again), std::move(moves), bound};
}

// Translates the steps of a net into those of the graph.
std::vector<std::uint32_t> steps_of(const question& q, std::vector<std::uint32_t> steps) {
  for (std::uint32_t& s : steps) {
    const step_meaning it = meaning_of(q.n, s);
    if (it.kind == step_kind::out) s = copy_out(q.g, {q.n.value[it.index]});
    if (it.kind == step_kind::in) s = copy_in(q.g, {q.n.value[it.index]});
  }
  return steps;
}

// Places the copies in the slow memory. Each copy out lies there from its step to the last copy in of the same value
// before the next one.
result<plan::plan> place_slow(const question& q, const std::vector<std::uint32_t>& steps) {
  plan::problem slow{rules_of(q.o)};
  std::vector<std::size_t> lies(q.g.values().size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const step_meaning it = meaning_of(q.g, steps[i]);
    const auto now = static_cast<plan::tick>(i);
    if (it.kind == step_kind::out) {
      lies[it.index] = slow.buffers.size();
      const value& v = q.g.values()[it.index];
      slow.buffers.push_back({.name = v.name, .size = v.size, .live = {now, now + 1}});
    }
    if (it.kind == step_kind::in) slow.buffers[lies[it.index]].live.upper = now + 1;
  }
  return plan::solve(slow, q.o.order.placing);
}

result<recomputed> answer_of(const question& q, std::vector<std::uint32_t> steps, graph_fault* why) {
  steps = steps_of(q, std::move(steps));
  if (verify_steps(q.g, steps, q.o.order.keep, q.o.order.before, q.o.once)) {
    return error{errc::internal, "schedule: steps of ours did not pass verify_steps()", 0};
  }
  auto after = rewrite(q.g, steps);
  if (!after) return after.error();
  auto plan = plan_graph(after->graph, {.search = q.o.order.placing, .rules = rules_of(q.o)}, why);
  if (!plan) return plan.error();
  auto slow = place_slow(q, steps);
  if (!slow) return slow.error();
  recomputed made;
  made.after = std::move(*after);
  made.plan = std::move(*plan);
  made.slow = std::move(*slow);
  made.given_arena = q.start.given_plan.arena();
  for (const double c : q.cost) made.given_cost += c;
  const spending spent = spending_of(q.g, steps, q.cost, q.o.move);
  made.extra_cost = spent.again + spent.waited;
  made.waited = spent.waited;
  made.copied = spent.copied;
  made.steps = std::move(steps);
  made.bound = q.bound.first;
  made.holder = q.bound.second;
  return made;
}

// Returns the traced steps to spend on a cheaper answer: none, some tenths of a second, some seconds.
std::uint64_t steps_for(plan::effort level) {
  switch (level) {
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
  std::uint64_t steps_left = steps_for(q.o.order.work);
  const auto search = [&](const std::optional<transfer>& link) -> result<void> {
    // Places may need more than the live bytes: then the aim is lowered.
    bytes aim = budget;
    for (int tries = 0; tries < 5 && !best->within; ++tries) {
      const auto steps =
          drop_until({q.n, q.cost, q.again, q.moves, link}, q.start.steps, aim, steps_left, q.o.order.stop);
      auto next = answer_of(q, steps, why);
      if (!next) return next.error();
      next->within = next->plan.arena() <= budget;
      const bytes arena = next->plan.arena();
      if (arena < best->plan.arena()) best = std::move(next);
      const bytes over = arena > budget ? arena - budget : 0;
      if (over == 0 || over >= aim) break;
      aim -= over;
    }
    return {};
  };
  if (const auto done = search(q.o.move); !done) return done.error();
  // Moved values are in more pieces, which may find no places although recomputed values do.
  if (q.o.move && q.o.again && !best->within) {
    if (const auto done = search(std::nullopt); !done) return done.error();
  }
  return best;
}

// Returns the best answers at budgets between the bound and the need of the order alone.
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
  // By falling arena, those that cost less than all smaller ones.
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
  // The answers have rising cost and falling arena: takes the last affordable one. The first costs nothing.
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
