#include "schedule/timeline.hpp"

#include <algorithm>
#include <utility>

namespace berth::schedule {

timeline trace_steps(const net& n, std::span<const std::uint32_t> steps) {
  timeline made;
  const auto end = static_cast<std::uint32_t>(steps.size());
  std::vector<std::uint32_t> now(n.root.size(), no_node);  // the stay of each root
  const auto begin = [&](std::uint32_t r, std::uint32_t at) {
    now[r] = static_cast<std::uint32_t>(made.stays.size());
    made.stays.push_back({r, at, at, false, {}});
  };
  for (std::uint32_t r = 0; r < n.root.size(); ++r) {
    if (n.producer[r] == no_node) begin(r, 0);
  }
  struct taking {
    std::uint32_t step, stay;
  };
  std::vector<taking> takings;
  for (std::uint32_t i = 0; i < end; ++i) {
    const auto use = [&](std::uint32_t r) {
      stay& s = made.stays[now[r]];
      s.last = i;
      s.uses.push_back(i);
    };
    const step_meaning it = meaning_of(n, steps[i]);
    if (it.kind != step_kind::node) {
      it.kind == step_kind::out ? use(it.index) : begin(it.index, i);
      continue;
    }
    const std::uint32_t v = it.index;
    for (const std::uint32_t r : n.uses[v]) use(r);
    for (const std::uint32_t r : n.takes[v]) takings.push_back({i, now[r]});
    for (const std::uint32_t r : n.made_by[v]) begin(r, i);
  }
  for (std::uint32_t r = 0; r < n.root.size(); ++r) {
    if (n.stays[r] != 0) made.stays[now[r]].last = end;
  }
  std::vector<bytes> change(std::size_t{end} + 2, 0);  // differences wrap and sum up again
  for (const stay& s : made.stays) {
    change[s.born] += n.root[s.root];
    change[std::size_t{s.last} + 1] -= n.root[s.root];
  }
  bytes live = n.base;
  for (std::uint32_t i = 0; i < end; ++i) {
    live += change[i];
    made.live.push_back(live + (steps[i] < n.size() ? n.extra[steps[i]] : 0));
  }
  made.peak = std::max(n.at_start, live + change[end]);
  std::uint32_t taken = no_node;  // one operand a step
  for (const taking& t : takings) {
    if (t.step == taken || made.stays[t.stay].last != t.step) continue;
    made.stays[t.stay].taken = true;
    made.live[t.step] -= n.root[made.stays[t.stay].root];
    taken = t.step;
  }
  for (const bytes b : made.live) made.peak = std::max(made.peak, b);
  return made;
}

double extra_cost_of(const net& n, std::span<const std::uint32_t> steps, std::span<const double> cost,
                     const std::optional<transfer>& link) {
  std::vector<std::uint8_t> ran(n.size(), 0);
  double extra = 0;
  if (!link) {
    for (const std::uint32_t v : steps) extra += std::exchange(ran[v], 1) != 0 ? cost[v] : 0;
    return extra;
  }
  double now = 0, once = 0, out_free = 0, in_free = 0;
  std::vector<double> ready(n.root.size(), 0);
  for (const std::uint32_t step : steps) {
    const step_meaning it = meaning_of(n, step);
    if (it.kind == step_kind::node) {
      for (const std::uint32_t r : n.uses[step]) now = std::max(now, ready[r]);
      now += cost[step];
      if (std::exchange(ran[step], 1) == 0) once += cost[step];
      for (const std::uint32_t r : n.made_by[step]) ready[r] = now;
    } else if (!link->overlap) {
      now += time_of(*link, n.root[it.index]);
    } else if (it.kind == step_kind::out) {
      out_free = std::max(out_free, ready[it.index]) + time_of(*link, n.root[it.index]);
      now = std::max(now, out_free);
    } else {
      ready[it.index] = in_free = std::max(now, in_free) + time_of(*link, n.root[it.index]);
    }
  }
  for (std::uint32_t r = 0; r < n.root.size(); ++r) now = n.stays[r] != 0 ? std::max(now, ready[r]) : now;
  return now - once;
}

}  // namespace berth::schedule
