#include "berth/graph/graph_plan.hpp"

#include <algorithm>
#include <utility>

#include "berth/graph/fingerprint.hpp"
#include "graph/fail.hpp"
#include "graph/open_plan.hpp"

namespace berth {
namespace {

struct packing {
  liveness live;
  plan::plan plan;
  std::optional<plan::evaluator> order{};
};

result<packing> pack(const graph_structure& g, const rules::placement& rules, const plan::options& search, reuse mode) {
  packing made{find_lifetimes(g, rules, mode), {}};
  auto solved = plan::solve(made.live.problem, search);
  if (!solved) return solved.error();
  made.plan = std::move(*solved);
  return made;
}

// Finds one order for all values of the dimensions. Its plan is that at the largest.
result<packing> pack_open(const graph& g, const rules::placement& rules, const plan::options& search) {
  packing made{find_lifetimes(g.structure(), rules), {}};
  set_dimensions(g, made.live);
  auto solved = plan::solve(made.live.problem, search);
  if (!solved) return solved.error();
  made.order.emplace(made.live.problem, *solved);
  made.plan = std::move(*solved);
  return made;
}

// Making all possible merges gives the least live bytes and the fewest buffers, and usually packs to the bound in one
// pass. If it does not, tying fewer values together leaves the search more freedom.
result<packing> pack_best(const graph_structure& g, const rules::placement& rules, const plan::options& search) {
  auto best = pack(g, rules, search, reuse::all);
  if (!best || best->plan.optimal() || search.work == plan::effort::fast || best->live.in_place.empty() ||
      best->live.problem.conflicts) {
    return best;
  }
  if (best->plan.has_offsets() && best->plan.arena() == best->plan.lower_bound()) return best;
  auto freer = pack(g, rules, search, reuse::needed);
  if (freer && freer->plan.has_offsets() && (!best->plan.has_offsets() || freer->plan.arena() < best->plan.arena())) {
    return freer;
  }
  return best;
}

// Places states side by side from 0. Returns nothing on overflow.
std::optional<bytes> place_states(const graph_structure& g, const rules::placement& rules, graph_plan& made) {
  bytes at = 0;
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].kind != value_kind::state) continue;
    const auto taken = rules.footprint(g.values[v].size);
    const auto end = taken ? checked_add(at, *taken) : std::nullopt;
    const auto next = end ? checked_align_up(*end, rules.start_alignment) : std::nullopt;
    if (!next) return std::nullopt;
    made.offset_of[v] = at;
    at = *next;
  }
  return at;
}

void spread(const graph_structure& g, const packing& packed, graph_plan& made) {
  const auto place = [&](std::uint32_t buffer) { return made.state_bytes + packed.plan.offset(buffer); };
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    const value_record& value = g.values[v];
    if (value.root != v || (value.kind != value_kind::input && value.kind != value_kind::result)) continue;
    const std::uint32_t buffer = packed.live.buffer_of[v];
    made.offset_of[v] = buffer == no_buffer ? 0 : place(buffer);  // a value of no bytes lies at the base
  }
  for (const view_record& view : g.views) {
    const bytes root = made.offset_of[g.values[view.value].root];
    if (root != no_offset) made.offset_of[view.value] = root + view.offset;
  }
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    if (packed.live.workspace_of[n] != no_buffer) made.workspace_of[n] = place(packed.live.workspace_of[n]);
  }
}

// Returns the bytes of all values and workspaces side by side; nothing on overflow. Planning is counted in nanoseconds
// a value. So this uses a mask instead of a division if possible, and checks for overflow only at the end.
std::optional<bytes> without_reuse(const graph_structure& g, const rules::placement& rules) {
  bytes sum = 0;
  bool overflow = false;
  const bool by_mask = is_power_of_two(rules.size_granularity);
  const bytes mask = rules.size_granularity - 1;
  const auto add = [&](bytes size) {
    if (by_mask) {
      const bytes taken = ((size + mask) & ~mask) + rules.tail_pad;
      sum += taken;
      overflow |= taken < size || sum < taken;
    } else {
      const auto taken = rules.footprint(size);
      overflow |= !taken || !checked_add(sum, *taken);
      sum += taken.value_or(0);
    }
  };
  for (const value_record& v : g.values) {
    if (graph_structure::in_arena(v.kind)) add(v.size);
  }
  for (const node_record& n : g.nodes) {
    if (n.workspace != 0) add(n.workspace);
  }
  return overflow ? std::nullopt : std::optional{sum};
}

graph_fault bad_plan(value_id v, bytes number, std::string text) {
  return {fault_kind::bad_plan, v, {}, number, std::move(text)};
}

graph_fault over_budget(const graph& g, const graph_plan& made, const packing& packed, bytes budget) {
  graph_fault fault{fault_kind::over_budget, {}, {}, made.arena_bytes, {}};
  // The value that reaches highest is the one that does not fit.
  bytes top = 0;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    if (made.offset_of[v] == no_offset || g.values()[v].kind == value_kind::view) continue;
    const bytes end = made.offset_of[v] + g.values()[v].size;
    if (end > top) {
      top = end;
      fault.value = {v};
    }
  }
  fault.text = "the arena needs " + std::to_string(made.arena_bytes) + " bytes, " +
               std::to_string(made.arena_bytes - budget) + " more than the budget of " + std::to_string(budget);
  if (fault.value.index != UINT32_MAX) {
    const value& v = g[fault.value];
    fault.node = v.producer;
    fault.text += "; value '" + v.name + "' (" + std::to_string(v.size) + " bytes) reaches the end";
  }
  if (made.open) fault.text += what_fits(made, budget);
  fault.text += packed.plan.optimal() ? "; no plan needs less"
                                      : "; " + std::to_string(made.lower_bound_bytes) + " bytes are proved necessary";
  return fault;
}

}  // namespace

result<graph_plan> plan_graph(const graph& g, const graph_options& o, graph_fault* why) {
  if (graph_fault fault = validate(g, o.unique_names); !fault.ok()) return fail(std::move(fault), why);
  const rules::placement& rules = o.rules ? *o.rules : rules::host();
  const graph_structure& structure = g.structure();

  graph_plan made;
  made.alignment = rules.start_alignment;
  made.granularity = rules.size_granularity;
  made.tail_pad = rules.tail_pad;
  made.offset_of.assign(structure.values.size(), no_offset);
  made.workspace_of.assign(structure.nodes.size(), no_offset);
  const auto all = without_reuse(structure, rules);
  const auto states = place_states(structure, rules, made);
  if (!all || !states) {
    return fail({fault_kind::size_overflow, {}, {}, max_bytes, "the sizes of all values exceed 2^64 - 1 bytes"}, why);
  }
  made.no_reuse_bytes = *all;
  made.state_bytes = *states;

  const bool open = !g.open().dimensions.empty();
  auto packed = open ? pack_open(g, rules, o.search) : pack_best(structure, rules, o.search);
  if (!packed && packed.error().code == errc::overflow) {
    return fail({fault_kind::size_overflow,
                 {},
                 {},
                 *all,
                 "all values together take " + std::to_string(*all) +
                     " bytes: no more than 2^62, with alignments, can be planned"},
                why);
  }
  if (!packed) return packed.error();
  if (!packed->plan.has_offsets()) {
    return fail({fault_kind::no_plan, {}, {}, packed->plan.lower_bound(), "the planner found no plan"}, why);
  }
  made.structure = structure;
  made.arena_bytes = made.state_bytes + packed->plan.arena();
  made.lower_bound_bytes = made.state_bytes + packed->plan.lower_bound();
  made.provenance = {std::string{packed->plan.solver}, std::string{rules.name}, "berth " BERTH_VERSION};
  made.in_place = std::move(packed->live.in_place);
  spread(structure, *packed, made);
  if (open) {
    made.open.emplace(open_plan{g.open(), structure, std::move(*packed->order), packed->live.buffer_of,
                                packed->live.workspace_of, std::vector<bytes>(g.open().extents.size()),
                                g.open().largest()});
    for (const view_record& view : structure.views) made.open->buffer_of[view.value] = no_buffer;
  }
  if (made.arena_bytes > o.budget) return fail(over_budget(g, made, *packed, o.budget), why);
  if (o.verify) {
    if (graph_fault fault = verify_plan(g, made, rules); !fault.ok()) return fail(std::move(fault), why);
  }
  return made;
}

graph_plan plan_for_smaller(const graph_plan& planned, const graph_structure& now) {
  graph_plan made = planned;
  made.structure = now;
  made.open.reset();
  for (const view_record& view : now.views) {
    const bytes root = made.offset_of[now.values[view.value].root];
    if (root != no_offset) made.offset_of[view.value] = root + view.offset;
  }
  for (std::size_t n = 0; n < now.nodes.size(); ++n) {
    if (now.nodes[n].workspace == 0) made.workspace_of[n] = no_offset;
  }
  made.lower_bound_bytes = made.state_bytes;  // the bound of a smaller graph is not computed
  return made;
}

graph_fault verify_plan(const graph& g, const graph_plan& p, const rules::placement& rules) {
  const graph_structure& s = g.structure();
  if (const difference d = first_difference(p.structure, s); d.what != change::none) {
    return {fault_kind::changed, d.value, d.node, 0, describe(d, p.structure, g)};
  }
  if (p.offset_of.size() != s.values.size() || p.workspace_of.size() != s.nodes.size()) {
    return bad_plan({}, p.offset_of.size(), "the plan has not one place a value and node");
  }
  if (p.alignment != rules.start_alignment || p.granularity != rules.size_granularity || p.tail_pad != rules.tail_pad) {
    return bad_plan({}, p.alignment,
                    "the plan was made under other placement rules ('" + p.provenance.rules + "', alignment " +
                        std::to_string(p.alignment) + ") than '" + std::string{rules.name} + "' (alignment " +
                        std::to_string(rules.start_alignment) + ")");
  }
  graph_plan expected;
  expected.offset_of.assign(s.values.size(), no_offset);
  const auto states = place_states(s, rules, expected);
  if (!states || !without_reuse(s, rules)) {
    return {fault_kind::size_overflow, {}, {}, max_bytes, "the sizes of all values exceed 2^64 - 1 bytes"};
  }
  for (std::uint32_t v = 0; v < s.values.size(); ++v) {
    if (s.values[v].kind == value_kind::state && p.offset_of[v] != expected.offset_of[v]) {
      return bad_plan({v}, p.offset_of[v],
                      "state '" + g[value_id{v}].name + "' (" + std::to_string(s.values[v].size) + " bytes) is at " +
                          std::to_string(p.offset_of[v]) + ", and belongs at " + std::to_string(expected.offset_of[v]));
    }
  }
  if (p.state_bytes != *states || p.lower_bound_bytes > p.arena_bytes) {
    return bad_plan({}, p.lower_bound_bytes,
                    "the plan claims that " + std::to_string(p.lower_bound_bytes) +
                        " bytes are necessary, and has an arena of " + std::to_string(p.arena_bytes));
  }
  return verify_bytes(g, p);
}

}  // namespace berth
