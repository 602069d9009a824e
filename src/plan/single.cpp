#include "plan/single.hpp"

#include <algorithm>

#include "plan/bounds.hpp"
#include "plan/greedy/greedy.hpp"
#include "plan/greedy/sweep.hpp"
#include "plan/hints.hpp"
#include "plan/instance.hpp"
#include "plan/search/conflicts.hpp"
#include "plan/search/ladder.hpp"

namespace berth::plan {
namespace {

// The first item pinned where another one or a reserved range lies: no plan exists, whatever the capacity.
std::uint32_t pin_that_clashes(const instance& in) {
  occupancy taken{in};
  const auto reserved = static_cast<std::uint32_t>(in.items.size() - in.own_items);
  for (std::uint32_t k = 0; k < in.items.size(); ++k) {
    const std::uint32_t i = k < reserved ? in.own_items + k : k - reserved;  // reserved ranges first
    if (in.items[i].pin == no_offset) continue;
    if (!taken.is_free(i, in.items[i].pin)) return i;
    taken.insert(i, in.items[i].pin);
  }
  return no_item;
}

void fill(const problem& p, const instance& in, const layout& found, plan& out) {
  out.offsets.resize(p.buffers.size());
  out.arena_bytes = 0;
  for (index i = 0; i < p.buffers.size(); ++i) {
    const std::uint32_t it = in.item_of[i];
    // An empty buffer touches no byte: it lies where it was asked to, or at 0.
    out.offsets[i] = it == no_item ? p.buffers[i].offset.value_or(0) : static_cast<bytes>(found.offsets[it]) * in.unit;
    out.arena_bytes = std::max(out.arena_bytes, out.offsets[i] + p.footprint(i));
  }
}

// Above this many clique members the conflict graph is not built.
constexpr std::uint64_t most_conflict_work = 2'000'000;

std::uint64_t node_limit(const options& o, const conflict_graph& graph) {
  if (o.node_limit != 0) return o.node_limit;
  const std::uint64_t second = nodes_per_second(graph);
  switch (o.work) {
    case effort::fast: return 0;
    case effort::normal: return second / 10;
    case effort::best: return 10 * second;
  }
  return 0;
}

// Search nodes for keeping hints: some tens of milliseconds.
constexpr std::uint64_t hint_nodes = 40'000;

// Whether every hint is one that the instance can express.
bool hints_are_whole(const problem& p, const instance& in) {
  return std::all_of(p.buffers.begin(), p.buffers.end(),
                     [&](const buffer& b) { return !b.hint || *b.hint % in.unit == 0; });
}

// At the bound no effort finds better; effort fast takes what fits and ends within a quarter of the bound, as sweeps of
// networks nearly always do.
bool is_good_enough(const problem& p, const swept& s, effort work) {
  const auto& limit = p.memories.empty() ? p.capacity : p.memories[0].capacity;
  return s.arena - s.why.bound <= (work == effort::fast ? s.why.bound / 4 : 0) && (!limit || s.arena <= *limit);
}

plan plan_of(swept s) {
  plan out;
  out.offsets = std::move(s.offsets);
  out.arena_bytes = s.arena;
  out.lower_bound_bytes = s.why.bound;
  if (s.why.bound != 0) out.proof.push_back(std::move(s.why));
  out.solver = "sweep";
  out.status = out.arena_bytes == out.lower_bound_bytes ? status::optimal : status::feasible;
  return out;
}

// An empty buffer makes no item, but its pin counts.
argument highest_empty_pin(const problem& p) {
  argument highest;
  for (index i = 0; i < p.buffers.size(); ++i) {
    const bytes pin = p.buffers[i].offset.value_or(0);
    if (p.footprint(i) == 0 && pin > highest.bound) highest = {.bound = pin, .buffers = {i}};
  }
  return highest;
}

// The lower bound as it rises.
struct rising_bound {
  proved_bound proved;
  argument empty_pin;
  units value = 0;  // above what is proved where a search refuted more
};

void tell(const rising_bound& bound, bytes unit, plan& out) {
  const bytes found = static_cast<bytes>(bound.value) * unit;
  out.lower_bound_bytes = std::max(found, bound.empty_pin.bound);
  out.proof.clear();
  if (out.lower_bound_bytes == 0) return;
  out.proof.push_back(bound.empty_pin.bound > found ? bound.empty_pin : bound.proved.why);
  if (bound.value > bound.proved.value && found > bound.empty_pin.bound) {
    out.proof.push_back({.kind = argument::kind::search, .bound = found});
  }
}

// Whether no plan exists; says why in `out`.
bool is_refuted(const problem& p, const instance& in, const rising_bound& bound, plan& out) {
  const std::uint32_t clash = pin_that_clashes(in);
  if (clash != no_item) {
    out.reason = "buffer is pinned where another one or a reserved range lies";
    out.culprit = static_cast<index>(std::find(in.item_of.begin(), in.item_of.end(), clash) - in.item_of.begin());
  }
  const auto& limit = p.memories.empty() ? p.capacity : p.memories[0].capacity;
  return bound.value > in.capacity || clash != no_item || (limit && bound.empty_pin.bound > *limit);
}

layout of_items(const problem& p, const instance& in, const swept& s, layout found) {
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (in.item_of[i] != no_item) found.offsets[in.item_of[i]] = static_cast<units>(s.offsets[i] / in.unit);
  }
  found.arena = arena_of(in, found.offsets);
  found.solver = "sweep";
  return found;
}

layout search_below(const instance& in, const options& o, layout found, units& bound, const patience& wait, plan& out) {
  const conflict_graph graph = make_conflicts(in);
  climb c = find_least_arena(in, graph, std::move(found), bound,
                             {.nodes = node_limit(o, graph), .threads = o.threads, .watch = o.watch}, wait);
  bound = c.bound;
  out.work = c.nodes;
  return std::move(c.best);
}

}  // namespace

plan solve_single(const problem& p, const options& o, const patience& wait, bool* most_hints) {
  constexpr double near_enough = 1.0 / 64;  // at effort fast
  std::optional<swept> quick = sweep(p, o.work == effort::fast ? near_enough : 0);
  if (quick && is_good_enough(p, *quick, o.work)) return plan_of(*std::move(quick));
  plan out;
  const instance in = make_instance(p);
  if (!in.representable) {
    out.reason = "the sizes, alignments, pins and reserved ranges together are too large to be counted";
    return out;
  }
  rising_bound bound{.proved = quick_bound(p, in), .empty_pin = highest_empty_pin(p)};
  bound.value = bound.proved.value;
  tell(bound, in.unit, out);
  if (is_refuted(p, in, bound, out)) {
    out.status = status::infeasible;
    return out;
  }
  layout found = best_greedy(in, bound.value, o.work, wait);
  if (quick && static_cast<units>(quick->arena / in.unit) < found.arena) {
    found = of_items(p, in, *quick, std::move(found));
  }
  if (found.arena > bound.value && o.work != effort::fast && !wait.over()) {
    bound.proved = thorough_bound(p, in, std::move(bound.proved), wait);
    bound.value = bound.proved.value;
    if (found.arena > bound.value && conflict_work(in) <= most_conflict_work && !wait.over()) {
      found = search_below(in, o, std::move(found), bound.value, wait, out);
    }
    tell(bound, in.unit, out);
  }
  if (found.arena > in.capacity) {
    if (bound.value > in.capacity) out.status = status::infeasible;
    return out;
  }
  if (std::any_of(in.items.begin(), in.items.end(), [](const item& it) { return it.hint != no_offset; })) {
    // As much work again as the search had, at most.
    const std::uint64_t nodes = o.work == effort::fast ? 0 : o.node_limit != 0 ? o.node_limit : hint_nodes;
    const kept_hints kept = keep_hints(in, found, o.work != effort::fast, nodes, wait);
    out.work += kept.nodes;
    if (most_hints != nullptr) *most_hints = kept.most && hints_are_whole(p, in);
  }
  fill(p, in, found, out);
  out.solver = found.solver;
  out.status = out.arena_bytes == out.lower_bound_bytes ? status::optimal : status::feasible;
  return out;
}

}  // namespace berth::plan
