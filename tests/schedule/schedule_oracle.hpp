// The oracles of the tests of schedules: all orders of a small graph, and the run of a rewritten graph on plain bytes.
#pragma once

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "berth/graph/liveness.hpp"
#include "berth/plan/bound.hpp"
#include "berth/schedule/steps.hpp"
#include "graph/random_graph.hpp"

namespace berth::test {

// Calls `each` with every order that verify_steps() accepts.
inline void for_all_orders(const graph& g, std::span<const std::uint32_t> keep,
                           const std::function<void(const std::vector<std::uint32_t>&)>& each) {
  std::vector<std::uint32_t> steps;
  std::vector<bool> taken(g.nodes().size(), false);
  const std::function<void()> extend = [&] {
    const auto wrong = schedule::verify_steps(g, steps, keep);
    if (wrong && std::string_view{wrong->rule} != "a node does not run") return;
    if (steps.size() == taken.size()) {
      if (!wrong) each(steps);
      return;
    }
    for (std::uint32_t n = 0; n < taken.size(); ++n) {
      if (taken[n]) continue;
      taken[n] = true;
      steps.push_back(n);
      extend();
      steps.pop_back();
      taken[n] = false;
    }
  };
  extend();
}

// The most bytes live, states included, as the planner sees the graph.
inline bytes most_live(const graph& g, const rules::placement& rules) {
  bytes states = 0;
  for (const value& v : g.values()) {
    if (v.kind == value_kind::state) states = align_up(states + *rules.footprint(v.size), rules.start_alignment);
  }
  return states + plan::max_live(find_lifetimes(g.structure(), rules).problem);
}

// Runs the rewritten graph in its arena; `slow` places the values that move in a slow memory. Returns the bytes of
// outputs, states and externals, in the order of `g`'s values.
inline std::vector<std::byte> run_rewritten(const graph& g, const schedule::rewritten& made, const graph_plan& p,
                                            std::span<const std::uint32_t> steps, const plan::plan* slow = nullptr) {
  outside_memory memory{made.graph, false};
  std::vector<std::byte> arena(p.arena());
  const placement_of where{
      [&](value_id v) { return memory.has(v) ? memory.value(v) : arena.data() + p.offset_of[v.index]; },
      [&](node_id n) { return arena.data() + p.workspace_of[n.index]; }};
  fill_from_outside(made.graph, where);
  std::vector<std::byte> slow_bytes(slow != nullptr ? slow->arena() : 0);
  std::vector<std::byte*> lies(g.values().size());
  plan::index outs = 0;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const schedule::step_meaning it = schedule::meaning_of(g, steps[i]);
    const node& n = made.graph.nodes()[i];
    if (it.kind == schedule::step_kind::node) {
      (void)run_node(made.graph, {i}, where, steps[i] + 1);
      continue;
    }
    const bytes size = g.values()[it.index].size;
    if (it.kind == schedule::step_kind::out) {
      lies[it.index] = slow_bytes.data() + slow->offset(outs++);
      std::copy_n(where.value(n.inputs[0]), size, lies[it.index]);
    } else {
      std::copy_n(lies[it.index], size, where.value(n.outputs[0]));
    }
  }
  std::vector<std::byte> all;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    if (it.kind == value_kind::view) continue;
    if (!it.output && it.kind != value_kind::state && it.kind != value_kind::external) continue;
    const std::byte* at = where.value(made.value_of[v]);
    all.insert(all.end(), at, at + it.size);
  }
  return all;
}

// The same of the given graph, where nothing shares memory.
inline std::vector<std::byte> run_given(const graph& g) {
  outside_memory memory{g, true};
  const placement_of where{[&](value_id v) { return memory.value(v); }, [&](node_id n) { return memory.workspace(n); }};
  fill_from_outside(g, where);
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) (void)run_node(g, {n}, where);
  std::vector<std::byte> all;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    if (it.kind == value_kind::view) continue;
    if (!it.output && it.kind != value_kind::state && it.kind != value_kind::external) continue;
    all.insert(all.end(), where.value({v}), where.value({v}) + it.size);
  }
  return all;
}

}  // namespace berth::test
