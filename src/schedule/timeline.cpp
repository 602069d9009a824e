#include "schedule/timeline.hpp"

#include <algorithm>

namespace berth::schedule {

timeline trace_steps(const net& n, std::span<const std::uint32_t> steps) {
  timeline made;
  const auto end = static_cast<std::uint32_t>(steps.size());
  std::vector<std::uint32_t> now(n.root.size(), no_node);  // the stay of each root
  std::vector<std::vector<std::uint32_t>> made_by(n.size());
  const auto begin = [&](std::uint32_t r, std::uint32_t at) {
    now[r] = static_cast<std::uint32_t>(made.stays.size());
    made.stays.push_back({r, at, at, {}});
  };
  for (std::uint32_t r = 0; r < n.root.size(); ++r) {
    if (n.producer[r] == no_node)
      begin(r, 0);
    else
      made_by[n.producer[r]].push_back(r);
  }
  struct taking {
    std::uint32_t step, stay;
  };
  std::vector<taking> takings;
  for (std::uint32_t i = 0; i < end; ++i) {
    const std::uint32_t v = steps[i];
    for (const std::uint32_t r : n.uses[v]) {
      stay& s = made.stays[now[r]];
      s.last = i;
      s.uses.push_back(i);
    }
    for (const std::uint32_t r : n.takes[v]) takings.push_back({i, now[r]});
    for (const std::uint32_t r : made_by[v]) begin(r, i);
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
    made.live.push_back(live + n.extra[steps[i]]);
  }
  made.peak = std::max(n.at_start, live + change[end]);
  std::uint32_t taken = no_node;  // one operand a step
  for (const taking& t : takings) {
    if (t.step == taken || made.stays[t.stay].last != t.step) continue;
    made.live[t.step] -= n.root[made.stays[t.stay].root];
    taken = t.step;
  }
  for (const bytes b : made.live) made.peak = std::max(made.peak, b);
  return made;
}

}  // namespace berth::schedule
