#include "berth/schedule/steps.hpp"

#include <algorithm>
#include <vector>

namespace berth::schedule {

step_meaning meaning_of(const graph& g, std::uint32_t step) noexcept {
  const auto nodes = static_cast<std::uint32_t>(g.nodes().size());
  const auto values = static_cast<std::uint32_t>(g.values().size());
  if (step < nodes) return {step_kind::node, step};
  if (step - nodes < values) return {step_kind::out, step - nodes};
  if (step - nodes - values < values) return {step_kind::in, step - nodes - values};
  return {};
}

std::uint32_t copy_out(const graph& g, value_id v) noexcept {
  return static_cast<std::uint32_t>(g.nodes().size()) + v.index;
}

std::uint32_t copy_in(const graph& g, value_id v) noexcept {
  return static_cast<std::uint32_t>(g.nodes().size() + g.values().size()) + v.index;
}

spending spending_of(const graph& g, std::span<const std::uint32_t> steps, std::span<const double> cost,
                     const std::optional<transfer>& link) {
  spending made;
  double now = 0, out_free = 0, in_free = 0;
  std::vector<double> there(g.values().size(), 0);  // by root: the time when its bytes exist
  std::vector<std::uint8_t> ran(g.nodes().size(), 0);
  const auto wait = [&](double until) {
    if (until <= now) return;
    made.waited += until - now;
    now = until;
  };
  for (const std::uint32_t step : steps) {
    const step_meaning it = meaning_of(g, step);
    if (it.kind == step_kind::node) {
      const node& n = g.nodes()[it.index];
      for (const value_id v : n.inputs) wait(there[g[v].root.index]);
      for (const value_id v : n.outputs) wait(g[v].kind == value_kind::view ? there[g[v].root.index] : 0);
      made.again += ran[it.index] != 0 ? cost[it.index] : 0;
      ran[it.index] = 1;
      now += cost[it.index];
      for (const value_id v : n.outputs) there[g[v].root.index] = now;
      continue;
    }
    const bytes size = g.values()[it.index].size;
    made.copied += size;
    const double takes = link ? link->latency + static_cast<double>(size) / link->bandwidth : 0;
    if (link && !link->overlap) {
      wait(now + takes);
      there[it.index] = now;
    } else if (it.kind == step_kind::out) {
      out_free = std::max(out_free, there[it.index]) + takes;
      wait(out_free);
    } else {
      there[it.index] = in_free = std::max(now, in_free) + takes;
    }
  }
  for (const value& v : g.values()) {
    if (v.output) wait(there[v.root.index]);
  }
  return made;
}

}  // namespace berth::schedule
