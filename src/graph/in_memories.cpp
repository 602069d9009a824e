#include "berth/graph/in_memories.hpp"

#include <algorithm>
#include <utility>

namespace berth {
namespace {

// The part of the problem for one memory: its buffer i is buffer `of[i]` of the whole.
struct part {
  plan::problem problem;
  std::vector<std::uint32_t> of;
};

// Divides the buffers by the memory of their values.
std::vector<part> by_memory(const memories_question& q, liveness& live) {
  std::vector<part> parts(q.memories.size());
  const bool alone = parts.size() == 1;
  if (alone) parts[0].problem = std::move(live.problem);
  for (std::size_t m = 0; m < parts.size(); ++m) {
    parts[m].problem.alignment = parts[m].problem.granularity = std::max<bytes>(q.memories[m].alignment, 1);
  }
  if (alone) return parts;
  std::vector<std::uint32_t> home(live.problem.buffers.size(), 0);
  for (std::uint32_t v = 0; v < live.buffer_of.size(); ++v) {
    if (live.buffer_of[v] != no_buffer) home[live.buffer_of[v]] = q.home[v];
  }
  for (std::uint32_t b = 0; b < home.size(); ++b) {
    parts[home[b]].problem.buffers.push_back(std::move(live.problem.buffers[b]));
    parts[home[b]].of.push_back(b);
  }
  return parts;
}

// Protects the operands of a node that runs fused with the following node.
void join(const memories_question& q, liveness& live) {
  for (const std::uint32_t n : q.joined) {
    const auto taken = std::lower_bound(live.in_place.begin(), live.in_place.end(), n + 1,
                                        [](const take_over& t, std::uint32_t node) { return t.node < node; });
    if (taken != live.in_place.end() && taken->node == n + 1) continue;
    for (const std::uint32_t v : q.graph.inputs(q.graph.nodes[n])) {
      if (live.buffer_of[v] == no_buffer) continue;
      auto& upper = live.problem.buffers[live.buffer_of[v]].live.upper;
      upper = std::max<plan::tick>(upper, plan::tick{n} + 3);  // node n runs at tick n + 1
    }
  }
}

// Packs into one slab if that is large enough, else into as many as needed.
result<plan::plan> pack(plan::problem& p, const memory_rule& rule, bool pinned, const plan::options& search) {
  auto packed = plan::solve(p, search);
  if (packed && packed->has_offsets() && packed->arena() <= rule.max_slab) return packed;
  if (packed && packed->has_offsets()) {
    if (pinned) {
      return error{errc::limit_exceeded, "graph: values that have their places leave no room in one block",
                   packed->arena()};
    }
    bytes largest = rule.max_slab - rule.max_slab % p.alignment;
    for (plan::index b = 0; b < p.buffers.size(); ++b) largest = std::max(largest, p.footprint(b));
    p.max_slab = largest;
    packed = plan::solve(p, search);
  }
  if (!packed) return packed.error();
  if (!packed->has_offsets()) {
    return error{errc::limit_exceeded, "graph: no plan around the values that have their places", packed->number};
  }
  return packed;
}

}  // namespace

std::uint32_t memories_plan::taken_at(std::uint32_t n) const noexcept {
  const auto at = std::lower_bound(in_place.begin(), in_place.end(), n,
                                   [](const take_over& t, std::uint32_t node) { return t.node < node; });
  return at != in_place.end() && at->node == n ? at->operand : UINT32_MAX;
}

result<memories_plan> plan_in_memories(const memories_question& q, const plan::options& search) {
  liveness live = find_lifetimes(q.graph, rules::unconstrained());
  join(q, live);
  for (const pinned_value& pin : q.pins) {
    if (live.buffer_of[pin.value] != no_buffer) live.problem.buffers[live.buffer_of[pin.value]].offset = pin.offset;
  }
  memories_plan made;
  made.place_of.resize(q.graph.values.size());
  made.slabs_of.resize(q.memories.size());
  std::vector<place_in_memory> place_of(live.problem.buffers.size());
  std::vector<part> parts = by_memory(q, live);
  for (std::size_t m = 0; m < parts.size(); ++m) {
    part& one = parts[m];
    if (one.problem.buffers.empty()) continue;
    const bool pinned = std::any_of(q.pins.begin(), q.pins.end(), [&](const auto& p) { return q.home[p.value] == m; });
    const auto packed = pack(one.problem, q.memories[m], pinned, search);
    if (!packed) return packed.error();
    made.optimal = made.optimal && packed->optimal();
    for (plan::index b = 0; b < one.problem.buffers.size(); ++b) {
      const std::uint32_t slab = packed->slab_of.empty() ? 0 : packed->slab_of[b];
      const bytes room = one.problem.footprint(b);
      place_of[one.of.empty() ? b : one.of[b]] = {packed->offset(b), room, slab};
      auto& slabs = made.slabs_of[m];
      if (slabs.size() <= slab) slabs.resize(slab + 1, 0);
      slabs[slab] = std::max(slabs[slab], packed->offset(b) + room);
    }
  }
  for (std::uint32_t v = 0; v < live.buffer_of.size(); ++v) {
    if (live.buffer_of[v] != no_buffer) made.place_of[v] = place_of[live.buffer_of[v]];
  }
  made.in_place = std::move(live.in_place);
  return made;
}

}  // namespace berth
