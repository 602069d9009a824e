#include "berth/graph/in_memories.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>

#include "berth/plan/verify.hpp"

namespace berth {
namespace {

// The part of the problem for one memory: its buffer i is buffer `of[i]` of the whole.
struct memory_part {
  plan::problem problem;
  std::vector<std::uint32_t> of;
};

// Divides the buffers by the memory of their values.
std::vector<memory_part> by_memory(const memories_question& q, liveness& live) {
  std::vector<memory_part> parts(q.memories.size());
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

// Free ranges below the top of all that is taken, by offset.
class free_ranges {
 public:
  // Takes the smallest range that is large enough. Without one, it takes the bytes at the top.
  bytes take(bytes size) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second >= size && (best == free_.end() || it->second < best->second)) best = it;
    }
    if (best == free_.end()) {
      top_ += size;
      height_ = std::max(height_, top_);
      return top_ - size;
    }
    const auto [at, room] = *best;
    free_.erase(best);
    if (room > size) free_.emplace(at + size, room - size);
    return at;
  }

  void give(bytes at, bytes size) {
    if (size == 0) return;
    auto next = free_.lower_bound(at);
    if (next != free_.end() && next->first == at + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == at) {
      at = std::prev(next)->first;
      size += std::prev(next)->second;
      free_.erase(std::prev(next));
    }
    if (at + size == top_) {
      top_ = at;
    } else {
      free_.emplace(at, size);
    }
  }

  [[nodiscard]] bytes height() const noexcept { return height_; }

 private:
  std::map<bytes, bytes> free_;
  bytes top_ = 0, height_ = 0;
};

// Places each buffer by best fit in order of birth, as ggml's allocator does. O(buffers x (log buffers + holes)).
plan::plan in_order_of_birth(const plan::problem& p) {
  std::vector<plan::index> born(p.buffers.size());
  std::iota(born.begin(), born.end(), plan::index{0});
  std::vector<plan::index> dies = born;
  const auto lower = [&](plan::index a, plan::index b) { return p.buffers[a].live.lower < p.buffers[b].live.lower; };
  const auto upper = [&](plan::index a, plan::index b) { return p.buffers[a].live.upper < p.buffers[b].live.upper; };
  std::stable_sort(born.begin(), born.end(), lower);
  std::stable_sort(dies.begin(), dies.end(), upper);
  plan::plan made;
  made.offsets.resize(p.buffers.size());
  free_ranges free;
  std::size_t dead = 0;
  for (const plan::index b : born) {
    for (; dead < dies.size() && p.buffers[dies[dead]].live.upper <= p.buffers[b].live.lower; ++dead) {
      free.give(made.offsets[dies[dead]], p.footprint(dies[dead]));
    }
    made.offsets[b] = p.footprint(b) == 0 ? 0 : free.take(p.footprint(b));
  }
  made.arena_bytes = free.height();
  made.status = plan::status::feasible;
  made.solver = "order of birth";
  return made;
}

using clock = std::chrono::steady_clock;

// Solves with what is left of the time. A deadline that leaves no plan at all counts for nothing.
result<plan::plan> solve_until(const plan::problem& p, plan::options search, clock::time_point end) {
  if (search.deadline_s) search.deadline_s = std::max(0.0, std::chrono::duration<double>(end - clock::now()).count());
  auto found = plan::solve(p, search);
  if (!found || !search.deadline_s || found->has_offsets()) return found;
  search.deadline_s.reset();
  return plan::solve(p, search);
}

// Uses one slab if that is large enough, else as many as it takes.
result<plan::plan> pack(plan::problem& p, const memory_rule& rule, bool pinned, const plan::options& search,
                        clock::time_point end) {
  auto packed = solve_until(p, search, end);
  const bool is_late = search.deadline_s && clock::now() >= end;
  if (packed && packed->has_offsets() && !packed->optimal() && is_late && !pinned) {
    plan::plan other = in_order_of_birth(p);
    if (other.arena() < packed->arena() && !plan::verify_places(p, other)) packed = std::move(other);
  }
  if (packed && packed->has_offsets() && packed->arena() <= rule.max_slab) return packed;
  if (packed && packed->has_offsets()) {
    if (pinned) {
      return error{errc::limit_exceeded, "graph: values that have their places leave no room in one block",
                   packed->arena()};
    }
    bytes largest = rule.max_slab - rule.max_slab % p.alignment;
    for (plan::index b = 0; b < p.buffers.size(); ++b) largest = std::max(largest, p.footprint(b));
    p.max_slab = largest;
    packed = solve_until(p, search, end);
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
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>{
                                      std::clamp(search.deadline_s.value_or(0), 0.0, 1e6)});
  liveness live = find_lifetimes(q.graph, rules::unconstrained());
  join(q, live);
  for (const pinned_value& pin : q.pins) {
    if (live.buffer_of[pin.value] != no_buffer) live.problem.buffers[live.buffer_of[pin.value]].offset = pin.offset;
  }
  memories_plan made;
  made.place_of.resize(q.graph.values.size());
  made.slabs_of.resize(q.memories.size());
  std::vector<place_in_memory> place_of(live.problem.buffers.size());
  std::vector<memory_part> parts = by_memory(q, live);
  for (std::size_t m = 0; m < parts.size(); ++m) {
    memory_part& one = parts[m];
    if (one.problem.buffers.empty()) continue;
    const bool pinned = std::any_of(q.pins.begin(), q.pins.end(), [&](const auto& p) { return q.home[p.value] == m; });
    const auto packed = pack(one.problem, q.memories[m], pinned, search, end);
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
