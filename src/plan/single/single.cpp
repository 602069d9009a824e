#include "plan/single/single.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "berth/plan/certificate.hpp"
#include "plan/bound/bounds.hpp"
#include "plan/greedy/cuts.hpp"
#include "plan/greedy/ejection.hpp"
#include "plan/greedy/sweep.hpp"
#include "plan/model/conflicts.hpp"
#include "plan/model/instance.hpp"
#include "plan/model/pins.hpp"
#include "plan/policy.hpp"
#include "plan/search/narrow.hpp"
#include "plan/search/skyline.hpp"
#include "plan/single/components.hpp"
#include "plan/single/hints.hpp"
#include "plan/single/start.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

void fill(const problem& p, const instance& in, const layout& found, plan& out) {
  out.offsets.resize(p.buffers.size());
  out.arena_bytes = 0;
  for (index i = 0; i < p.buffers.size(); ++i) {
    const std::uint32_t it = in.item_of[i];
    // An empty buffer touches no byte: it lies at its pin, or at 0.
    out.offsets[i] = it == no_item ? p.buffers[i].offset.value_or(0) : static_cast<bytes>(found.offsets[it]) * in.unit;
    out.arena_bytes = std::max(out.arena_bytes, out.offsets[i] + p.footprint(i));
  }
}

std::uint64_t node_limit(const options& o, std::uint64_t second) {
  if (o.node_limit != 0) return o.node_limit;
  switch (o.work) {
    case effort::fast: return 0;
    case effort::normal: return second / policy::normal_share_of_second;
    case effort::best: return policy::best_seconds * second;
  }
  return 0;
}

// Returns whether the instance can express every hint.
bool hints_are_whole(const problem& p, const instance& in) {
  return std::all_of(p.buffers.begin(), p.buffers.end(),
                     [&](const buffer& b) { return !b.hint || *b.hint % in.unit == 0; });
}

bool fits(const problem& p, const swept& s) {
  const auto& limit = p.memories.empty() ? p.capacity : p.memories[0].capacity;
  return !limit || s.arena <= *limit;
}

// Returns whether the sweeps end the work: no effort ends below the bound. Effort fast accepts more for so many buffers
// that one further pass takes a second.
bool is_good_enough(const problem& p, const swept& s, effort level) {
  const bool is_many = p.buffers.size() > policy::most_at_once && level == effort::fast;
  return s.arena - s.why.bound <= (is_many ? s.why.bound / policy::good_enough_share_of_many : 0) && fits(p, s);
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

// Returns the highest pin of an empty buffer, which makes no item.
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
  out.proof.push_back(bound.empty_pin.bound >= found ? bound.empty_pin : bound.proved.why);
  if (bound.value > bound.proved.value && found > bound.empty_pin.bound) {
    out.proof.push_back({.kind = argument::kind::search, .bound = found});
  }
}

std::vector<index> buffers_of(const instance& in, std::uint32_t item) {
  std::vector<index> out;
  for (index i = 0; i < in.item_of.size(); ++i) {
    if (in.item_of[i] == item) out.push_back(i);
  }
  return out;
}

// Adds why no plan has the pins of two items, or of one and a reserved range.
void prove_clash(const problem& p, const instance& in, std::uint32_t item, std::uint32_t other, plan& out) {
  constexpr int most_tries = 64;  // pairs of members of two groups; each is checked as a certificate
  int tries = 0;
  const std::vector<index> others = buffers_of(in, other);
  for (const index i : buffers_of(in, item)) {
    for (std::size_t k = 0; k < std::max<std::size_t>(1, others.size()); ++k) {
      argument why{.bound = max_bytes, .buffers = {i}};
      if (!others.empty()) why.buffers.push_back(others[k]);
      if (++tries > most_tries) return;
      if (verify_bound(p, max_bytes, {why})) continue;
      out.proof.push_back(std::move(why));
      return;
    }
  }
}

// Returns whether no plan exists; names the buffer of a clash in `out`, and proves it.
bool is_refuted(const problem& p, const instance& in, const rising_bound& bound, plan& out) {
  const std::vector<std::uint32_t> pins = pins_that_clash(in);
  const auto clash = std::find_if(pins.begin(), pins.end(), [](std::uint32_t other) { return other != no_item; });
  if (clash != pins.end()) {
    out.reason = "buffer is pinned where another one or a reserved range lies";
    const auto item = static_cast<std::uint32_t>(clash - pins.begin());
    out.culprit = buffers_of(in, item).front();
    prove_clash(p, in, item, *clash, out);
  }
  const auto& limit = p.memories.empty() ? p.capacity : p.memories[0].capacity;
  return bound.value > in.capacity || clash != pins.end() || (limit && bound.empty_pin.bound > *limit);
}

layout of_items(const problem& p, const instance& in, const swept& s) {
  layout found;
  found.offsets.resize(in.items.size());
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (in.item_of[i] != no_item) found.offsets[in.item_of[i]] = static_cast<units>(s.offsets[i] / in.unit);
  }
  found.arena = arena_of(in, found.offsets);
  found.solver = "sweep";
  return found;
}

switches rules_on_trial() {
  switches out;
  out.sections = uses(technique::sections);
  out.holes = uses(technique::holes);
  out.decomposition = uses(technique::decomposition);
  out.memory = uses(technique::memory);
  out.multiples = uses(technique::multiples);
  return out;
}

// Searches one instance with `share` of all nodes, and adds the share spent to `spent`. Does nothing if the nodes do
// not suffice to place every item once. The number of conflicts (without the cliques of links) answers that before the
// graph is made.
layout search_one(const instance& in, const options& o, layout found, units& bound, const patience& wait, plan& out,
                  double share, double& spent) {
  const conflict_count size = count_conflicts(in);
  if (size.members > policy::most_graph_members || !size.fits_memory(in)) return found;
  const auto too_few = [&](std::uint64_t nodes) {
    return o.node_limit == 0 && nodes < static_cast<std::uint64_t>(std::count_if(
                                            in.items.begin(), in.items.begin() + in.own_items,
                                            [](const item& it) { return it.pin == no_offset; }));
  };
  if (too_few(node_limit(o, nodes_per_second(in.items.size(), 2 * size.pairs, in.sections)))) return found;
  const conflict_graph graph = make_conflicts(in);
  const std::uint64_t all = node_limit(o, nodes_per_second(graph));
  // All of the largest limit, as a double, would be more than can be counted.
  const auto nodes = share < 1 ? static_cast<std::uint64_t>(static_cast<double>(all) * share) : all;
  if (too_few(nodes) || wait.over()) return found;
  narrowed c =
      find_least_arena(in, graph, std::move(found), bound,
                       {.nodes = nodes, .rules = rules_on_trial(), .threads = o.threads, .watch = o.watch}, wait);
  bound = c.bound;
  out.work += c.nodes;
  spent += static_cast<double>(c.nodes) / static_cast<double>(all);
  return std::move(c.best);
}

// Searches below `found`. Moments that no item lives across cut the instance into components, which are searched one by
// one, the highest first. A component need not end lower than those before it, which already decide the arena. `spent`
// is the share of the nodes spent before.
layout search_below(const instance& in, const options& o, layout found, units& bound, const patience& wait, plan& out,
                    double spent = 0) {
  const std::vector<component> all = components_of(in);
  if (all.size() < 2) return search_one(in, o, std::move(found), bound, wait, out, 1 - spent, spent);
  std::vector<std::pair<const component*, units>> components;  // and where they end
  for (const component& c : all) {
    units top = 0;
    for (const std::uint32_t i : c.items) top = std::max(top, found.offsets[i] + in.items[i].size);
    components.emplace_back(&c, top);
  }
  std::stable_sort(components.begin(), components.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  units goal = bound;
  const auto items_above = [&](std::size_t from) {
    std::size_t items = 0;
    for (; from < components.size() && components[from].second > goal; ++from)
      items += components[from].first->items.size();
    return static_cast<double>(items);
  };
  for (std::size_t at = 0; at < components.size(); ++at) {
    const auto& [c, top] = components[at];
    if (top <= goal || wait.over()) break;
    // Most of a large instance would end as the whole did, and is too large for a search.
    if (c->items.size() > std::max(policy::few_items, in.items.size() / 2)) {
      goal = std::max(goal, top);
      continue;
    }
    // Its share of the nodes left, by its number of items among all components that may still need a search.
    const double share = (1 - spent) * static_cast<double>(c->items.size()) / items_above(at);
    // A greedy layout of its own to start from: the one found for the whole need not be good for it alone.
    const units own_goal = goal / c->scale;
    units proved = own_goal;
    layout own = best_start(c->in, own_goal, o, wait, out.work);
    if (c->scale == 1 && top < own.arena) own = layout_of(*c, found);
    if (own.arena > own_goal) own = search_one(c->in, o, std::move(own), proved, wait, out, share, spent);
    if (proved > own_goal) bound = std::max(bound, proved * c->scale);
    const units end = own.arena * c->scale;
    goal = std::max(goal, std::min(top, end));
    if (end >= top) continue;
    for (std::size_t k = 0; k < c->items.size(); ++k) found.offsets[c->items[k]] = own.offsets[k] * c->scale;
    found.solver = own.solver;
  }
  found.arena = arena_of(in, found.offsets);
  return found;
}

// Moves items to their hints. Returns true if no layout of that arena keeps more. Spends the node limit again at most.
bool move_to_hints(const instance& in, const options& o, const patience& wait, layout& found, std::uint64_t& work) {
  const std::uint64_t nodes = o.work == effort::fast ? 0 : o.node_limit != 0 ? o.node_limit : policy::hint_nodes;
  const kept_hints kept = keep_hints(in, found, o.work != effort::fast, nodes, wait);
  work += kept.nodes;
  return kept.most;
}

// Searches, then lowers the arena by cuts. Effort best begins like effort normal; cuts take a share of its nodes.
layout search_and_cut(const instance& in, const options& o, layout found, units& bound, const patience& wait,
                      plan& out) {
  const bool cuts = uses(technique::cuts) && o.node_limit == 0;
  const auto above = [&] { return found.arena > bound && !wait.over(); };
  if (!cuts || o.work != effort::best) {
    found = search_below(in, o, std::move(found), bound, wait, out);
    if (cuts && above()) lower_by_cuts(in, found, bound, policy::normal_cut_looks, wait);
    return found;
  }
  options quick = o;
  quick.work = effort::normal;
  found = search_below(in, quick, std::move(found), bound, wait, out);
  if (!above()) return found;
  const std::uint64_t looks = lower_by_cuts(in, found, bound, policy::best_cut_looks, wait);
  if (above()) found = search_below(in, o, std::move(found), bound, wait, out, looks != 0 ? policy::share_of_cuts : 0);
  return found;
}

// Runs ejections if skylines do not apply: such a search seldom ends near the bound. Ejections before the search would
// lead it to the wrong capacities (0027).
void lower_after_search(const instance& in, const options& o, const patience& wait, units bound, layout& found) {
  if (in.items.size() > policy::few_items || skylines::apply_to(in, found.arena)) return;
  const std::uint64_t most =
      std::min(policy::ejection_looks / 4, policy::ejection_looks_an_item_of_few * in.items.size());
  const std::uint64_t looks = o.work == effort::best ? 4 * most : most;
  if (uses(technique::ejections) && lower_by_ejection(in, found, bound, 0, looks, wait)) found.solver = "ejection";
}

// Runs effort fast as well, so that no effort ends above a lower one; of many items a layout near the bound is kept. It
// comes last, since a lower start leads the search astray (0027).
layout not_above_fast(const instance& in, const options& o, const patience& wait, units bound, layout start,
                      layout found, std::uint64_t& work) {
  const units near = in.items.size() > policy::few_items ? bound / policy::near_share : 0;
  if (found.arena <= bound + near) return found;
  options lower = o;
  lower.work = effort::fast;
  layout fast = best_start(in, bound, lower, wait, work, std::move(start));
  return fast.arena < found.arena ? std::move(fast) : std::move(found);
}

// Takes the hints out of the items, and returns them.
std::vector<units> take_hints(instance& in) {
  std::vector<units> hints;
  for (item& it : in.items) hints.push_back(std::exchange(it.hint, no_offset));
  return hints;
}

}  // namespace

plan refused(enum status s, std::string_view reason, index culprit, bytes number, const argument& why) {
  plan answer;
  answer.status = s;
  answer.reason = reason;
  answer.culprit = culprit;
  answer.number = number;
  answer.lower_bound_bytes = why.bound;
  if (why.bound != 0) answer.proof.push_back(why);
  return answer;
}

plan solve_single(const problem& p, const options& o, const patience& wait, bool* most_hints, verified* so_far) {
  const patience endless;
  const patience& first = p.buffers.size() <= policy::most_at_once ? endless : wait;
  const patience& sweeps = p.buffers.size() <= policy::most_swept_at_once ? endless : wait;
  const bool one = o.work == effort::fast && p.buffers.size() > policy::most_at_once;
  std::optional<swept> quick = sweep(p, one ? policy::near_enough_for_one_sweep : 0, sweeps);
  const bool hinted = std::any_of(p.buffers.begin(), p.buffers.end(), [](const buffer& b) { return bool{b.hint}; });
  if (quick && !hinted && is_good_enough(p, *quick, o.work)) return plan_of(*std::move(quick));
  if (quick && so_far != nullptr) so_far->consider(plan_of(*quick));
  if (quick && wait.over() && fits(p, *quick)) return plan_of(*std::move(quick));
  plan out;
  instance in = make_instance(p, first);
  // The arena comes first: hints count below one that is found without them.
  const std::vector<units> hints = take_hints(in);
  if (first.was_over()) return out;
  if (!in.representable) {
    out.reason = "the sizes, alignments, pins and reserved ranges together are too large to be counted";
    return out;
  }
  rising_bound bound{.proved = quick_bound(p, in, wait), .empty_pin = highest_empty_pin(p)};
  bound.value = bound.proved.value;
  tell(bound, in.unit, out);
  if (is_refuted(p, in, bound, out)) {
    out.status = status::infeasible;
    return out;
  }
  const auto show = [&](const layout& better) {
    if (so_far == nullptr || !so_far->are_many() || better.offsets.empty() || better.arena > in.capacity) return;
    plan some = out;
    fill(p, in, better, some);
    some.solver = better.solver;
    some.status = some.arena_bytes == some.lower_bound_bytes ? status::optimal : status::feasible;
    so_far->consider(some);
  };
  const layout start = quick ? of_items(p, in, *quick) : layout{};
  layout found = best_start(in, bound.value, o, wait, out.work, start, show);
  if (found.arena > bound.value && o.work != effort::fast && !wait.over()) {
    bound.proved = thorough_bound(p, in, std::move(bound.proved), wait);
    bound.value = bound.proved.value;
    if (found.arena > bound.value && !wait.over()) {
      found = search_and_cut(in, o, std::move(found), bound.value, wait, out);
      if (found.arena > bound.value && !wait.over()) lower_after_search(in, o, wait, bound.value, found);
    }
    if (!wait.over()) found = not_above_fast(in, o, wait, bound.value, start, std::move(found), out.work);
    tell(bound, in.unit, out);
  }
  if (found.arena > in.capacity || found.arena == unbounded) {
    if (bound.value > in.capacity) out.status = status::infeasible;
    return out;
  }
  if (std::any_of(hints.begin(), hints.end(), [](units hint) { return hint != no_offset; })) {
    for (std::size_t i = 0; i < hints.size(); ++i) in.items[i].hint = hints[i];
    // An empty buffer that is pinned above all others leaves the hints room up to its pin.
    found.arena = std::max(found.arena, static_cast<units>(bound.empty_pin.bound / in.unit));
    const bool most = move_to_hints(in, o, wait, found, out.work);
    if (most_hints != nullptr) *most_hints = most && hints_are_whole(p, in);
  }
  fill(p, in, found, out);
  out.solver = found.solver;
  out.status = out.arena_bytes == out.lower_bound_bytes ? status::optimal : status::feasible;
  return out;
}

}  // namespace berth::plan
