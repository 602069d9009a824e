#include "plan/several/memories.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "berth/plan/bound.hpp"
#include "plan/model/within.hpp"
#include "plan/policy.hpp"
#include "plan/several/assign.hpp"
#include "plan/several/one_memory.hpp"
#include "plan/several/repair.hpp"
#include "plan/single/single.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

// The question, as every step gets it.
struct asked {
  const problem& p;
  const std::vector<bundle>& bundles;
  const std::vector<std::vector<double>>& cost;
  options o;
  const argument& all;  // what all memories together must hold
  effort moving;        // of bundles between slabs

  [[nodiscard]] asked at(effort work) const {
    asked other = *this;
    other.o.work = work;
    return other;
  }
};

constexpr double any_cost = std::numeric_limits<double>::infinity();

struct laid_out {
  plan answer;
  std::optional<index> full;  // the memory that could not take what it was assigned
  bool proved = false;        // ... and never could; answer.reason, culprit and number may say why
};

// Returns the plan of `members` at their known places.
plan as_known(const problem& p, const std::vector<index>& members, const repaired& known) {
  plan part;
  part.status = status::feasible;
  part.solver = "first_fit";
  std::vector<bytes> top;
  for (const index i : members) {
    const std::size_t slab = p.max_slab ? known.slab_of[i] : 0;
    if (top.size() <= slab) top.resize(slab + 1, 0);
    top[slab] = std::max(top[slab], known.offsets[i] + p.footprint(i));
    part.offsets.push_back(known.offsets[i]);
    if (p.max_slab) part.slab_of.push_back(known.slab_of[i]);
  }
  part.arena_bytes = std::accumulate(top.begin(), top.end(), bytes{0});
  return part;
}

// Returns the plan of a memory, `there`. Returns the `known` one, if given, if it is lower or `placing` is over.
plan part_plan(const asked& q, const problem& there, const std::vector<index>& members, const patience& placing,
               const repaired* known) {
  const auto planned = [&] { return solve_one_memory(there, q.p.max_slab, q.o, placing, nullptr, q.moving); };
  if (known == nullptr) return planned();
  plan sure = as_known(q.p, members, *known);
  if (placing.over()) return sure;
  plan part = planned();
  if (part.has_offsets() && part.arena_bytes <= sure.arena_bytes) return part;
  sure.work = part.work;
  return sure;
}

// Lays out one assignment. `known`: offsets of it. Later assignments use the rest of `placing`.
laid_out place(const asked& q, const std::vector<index>& memory_of_bundle, const patience& placing,
               const repaired* known = nullptr) {
  const problem& p = q.p;
  laid_out placed;
  plan& answer = placed.answer;
  answer.status = status::optimal;
  answer.offsets.resize(p.buffers.size());
  answer.memory_of.resize(p.buffers.size());
  if (p.max_slab) answer.slab_of.resize(p.buffers.size());
  std::vector<std::vector<index>> members(p.memories.size());
  for (std::size_t u = 0; u < q.bundles.size(); ++u) {
    for (const index i : q.bundles[u].members) answer.memory_of[i] = memory_of_bundle[u];
  }
  for (index i = 0; i < p.buffers.size(); ++i) members[answer.memory_of[i]].push_back(i);
  part_maker parts{p};
  for (index m = 0; m < members.size(); ++m) {
    if (members[m].empty()) continue;
    const plan part = part_plan(q, parts.part(m, members[m]), members[m], placing, known);
    answer.work += part.work;
    answer.lower_bound_bytes += part.lower_bound_bytes;
    for (argument why : part.proof) {
      why.memory = m;
      for (index& i : why.buffers) i = members[m][i];
      answer.proof.push_back(std::move(why));
    }
    if (!part.has_offsets()) {
      placed.full = m;
      placed.proved = part.status == status::infeasible;
      answer.reason = part.reason;
      answer.culprit = part.culprit < members[m].size() ? members[m][part.culprit] : part.culprit;
      answer.number = part.number;
      return placed;
    }
    if (!part.optimal()) answer.status = status::feasible;
    if (!part.solver.empty() && !members[m].empty()) answer.solver = part.solver;
    answer.arena_bytes += part.arena_bytes;
    for (std::size_t k = 0; k < members[m].size(); ++k) {
      answer.offsets[members[m][k]] = part.offsets[k];
      if (!part.slab_of.empty()) answer.slab_of[members[m][k]] = part.slab_of[k];
    }
  }
  return placed;
}

// Returns the live bytes of memory m under an assignment: a lower limit forces another one.
bytes live_in(const asked& q, const std::vector<index>& memory_of_bundle, index m) {
  std::vector<index> members;
  for (std::size_t u = 0; u < q.bundles.size(); ++u) {
    const std::vector<index>& own = q.bundles[u].members;
    if (memory_of_bundle[u] == m) members.insert(members.end(), own.begin(), own.end());
  }
  std::sort(members.begin(), members.end());
  return max_live(part_of(q.p, m, members));
}

double cost_of(const asked& q, const std::vector<index>& memory_of_bundle) {
  double sum = 0;
  for (std::size_t u = 0; u < q.bundles.size(); ++u) {
    const std::vector<index>& choices = q.bundles[u].memories;
    const auto chosen = std::find(choices.begin(), choices.end(), memory_of_bundle[u]);
    sum += q.cost[u][static_cast<std::size_t>(chosen - choices.begin())];
  }
  return sum;
}

// Returns all assignments, cheapest first; none if there are too many to try each.
std::vector<std::vector<index>> all_assignments(const asked& q) {
  std::vector<std::vector<index>> all{{}};
  for (const bundle& u : q.bundles) {
    if (all.size() * u.memories.size() > policy::most_listed_assignments) return {};
    std::vector<std::vector<index>> longer;
    for (const std::vector<index>& start : all) {
      for (const index m : u.memories) {
        longer.push_back(start);
        longer.back().push_back(m);
      }
    }
    all = std::move(longer);
  }
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return cost_of(q, a) < cost_of(q, b); });
  return all;
}

// Returns the proved plan of bundles that could be assigned to other memories. The bounds of its own memories do not
// count, since another assignment could need less. Only the bound of all memories together counts.
memories_plan chosen_plan(const asked& q, plan layout, double cost, double cost_bound) {
  memories_plan found{.layout = std::move(layout), .cost = cost, .cost_bound = std::min(cost, cost_bound)};
  found.layout.lower_bound_bytes = q.all.bound;
  found.layout.proof.clear();
  if (q.all.bound != 0) found.layout.proof.push_back(q.all);
  found.layout.status = found.least() && found.layout.arena_bytes == q.all.bound ? status::optimal : status::feasible;
  return found;
}

memories_plan unknown_assignment(const asked& q, std::uint64_t nodes) {
  plan answer = refused(status::unknown, "no assignment to the memories was found that fits", 0, 0, q.all);
  answer.work = nodes;
  return {.layout = std::move(answer)};
}

// Returns whether bundles could lie in other memories than those listed.
bool is_abridged(const std::vector<bundle>& all) {
  return std::any_of(all.begin(), all.end(), [](const bundle& u) { return u.abridged; });
}

// Returns the cheapest assignment of few bundles that fits by address, which sums of live bytes do not tell.
memories_plan try_each(const asked& q, const patience& placing, std::uint64_t nodes, double cost_bound) {
  const auto each = q.o.work != effort::fast ? all_assignments(q) : std::vector<std::vector<index>>{};
  bool refuted = !is_abridged(q.bundles);
  for (const std::vector<index>& memory_of_bundle : each) {
    laid_out placed = place(q, memory_of_bundle, placing);
    nodes += placed.answer.work;
    placed.answer.work = nodes;
    if (!placed.full) {
      const double cost = cost_of(q, memory_of_bundle);
      return chosen_plan(q, std::move(placed.answer), cost, refuted ? cost : cost_bound);
    }
    refuted &= placed.proved && !placing.over();
    if (placing.was_over()) break;
  }
  if (!refuted || each.empty()) return unknown_assignment(q, nodes);
  plan answer = refused(status::infeasible, "no assignment to the memories fits: every one was tried", 0, 0, q.all);
  answer.work = nodes;
  return {.layout = std::move(answer)};
}

// Places bundles that have one memory each.
memories_plan place_as_told(const asked& q, const patience& placing) {
  std::vector<index> memory_of;
  for (const bundle& u : q.bundles) memory_of.push_back(u.memories[0]);
  laid_out placed = place(q, memory_of, placing);
  if (!placed.full) {
    const double only = cost_of(q, memory_of);
    return {.layout = std::move(placed.answer), .cost = only, .cost_bound = only};
  }
  const auto why = placed.proved ? status::infeasible : status::unknown;
  plan& part = placed.answer;
  plan answer = part.reason.empty() ? refused(why, "a memory cannot take the buffers it must", 0,
                                              q.p.memories[*placed.full].capacity.value_or(0))
                                    : refused(why, part.reason, part.culprit, part.number);
  answer.lower_bound_bytes = part.lower_bound_bytes;
  answer.proof = std::move(part.proof);
  answer.work = part.work;
  return {.layout = std::move(answer)};
}

// Assigns by live bytes, with ever lower limits for a memory that does not take that by address.
struct assigned {
  std::optional<laid_out> placed;
  assignment by;            // of what was placed
  std::vector<index> wish;  // what would have been cheapest
  double cost_bound = 0;    // proved: no assignment costs less
  bool none = false;        // proved: no assignment fits
  std::uint64_t nodes = 0;
};

assigned assign_and_place(const asked& q, const patience& wait, const patience& placing) {
  const problem& p = q.p;
  const patience choosing = wait.for_looks(policy::assign_looks, q.o.work);
  std::vector<std::optional<bytes>> limits;
  for (const memory& m : p.memories) limits.push_back(m.capacity);
  const bool fast = q.o.work == effort::fast;
  const std::size_t most_states =
      std::clamp<std::size_t>((fast ? policy::fast_state_bundles : policy::state_bundles) / (q.bundles.size() + 1), 1,
                              fast ? policy::fast_most_states : policy::most_states);
  std::vector<int> failures(p.memories.size(), 0);
  assigned out;
  // The more bundles, the fewer attempts: repair() then makes an assignment fit by address.
  const std::size_t attempts = std::clamp<std::size_t>(
      (p.max_slab ? policy::attempt_slab_bundles : policy::attempt_bundles) / (q.bundles.size() + 1),
      policy::fewest_attempts, policy::most_attempts);
  for (std::size_t attempt = 0; attempt < attempts; ++attempt) {
    out.by = assign(p, q.bundles, q.cost, limits, most_states, choosing);
    if (attempt == 0) out.cost_bound = out.by.least_cost;
    if (out.by.memory_of.empty() && !q.bundles.empty()) {
      out.none = attempt == 0 && out.by.exact;
      return out;
    }
    if (attempt == 0) out.wish = out.by.memory_of;
    laid_out placed = place(q, out.by.memory_of, placing);
    out.nodes += placed.answer.work;
    if (!placed.full) {
      out.placed = std::move(placed);
      return out;
    }
    const bytes used = live_in(q, out.by.memory_of, *placed.full);
    if (used == 0 || placing.over()) return out;
    const bytes less = std::max<bytes>(1, used >> 10) << failures[*placed.full]++;
    limits[*placed.full] = used - std::min(used, less);
  }
  return out;
}

// Returns a plan by repair() that costs less than `most`.
std::optional<memories_plan> repaired_plan(const asked& q, const std::vector<index>& wish, double most,
                                           double cost_bound, const patience& wait, const patience& placing) {
  if (!uses(technique::repair)) return {};
  const repaired by_address = repair(q.p, q.bundles, q.cost, wish, wait);
  if (by_address.memory_of.empty() || by_address.cost >= most) return {};
  laid_out placed = place(q, by_address.memory_of, placing, &by_address);
  return chosen_plan(q, std::move(placed.answer), by_address.cost, cost_bound);
}

bool has_choice(const std::vector<bundle>& all) {
  return std::any_of(all.begin(), all.end(), [](const bundle& u) { return u.memories.size() != 1; });
}

memories_plan at_effort(const asked& q, const patience& wait) {
  const patience placing = wait.for_looks(policy::memories_looks, q.o.work);
  if (!has_choice(q.bundles)) return place_as_told(q, placing);
  // The repair alone is the shortest way to a plan.
  if (placing.over() && uses(technique::repair)) return unknown_assignment(q, 0);
  assigned by_bytes = assign_and_place(q, wait, placing);
  if (is_abridged(q.bundles)) {
    by_bytes.none = false;
    by_bytes.cost_bound = 0;
  }
  if (by_bytes.none) {
    const char* why = "the memories cannot take all that is live at once";
    return {.layout = refused(status::infeasible, why, 0, q.all.bound, q.all)};
  }
  std::optional<memories_plan> best;
  if (by_bytes.placed) {
    plan& answer = by_bytes.placed->answer;
    answer.work = by_bytes.nodes;
    best = chosen_plan(q, std::move(answer), by_bytes.by.cost, by_bytes.cost_bound);
    if (best->least()) return *std::move(best);
  } else if (memories_plan each = try_each(q, placing, by_bytes.nodes, by_bytes.cost_bound);
             each.layout.has_offsets() || each.layout.status == status::infeasible) {
    return each;
  }
  auto other = repaired_plan(q, by_bytes.wish, best ? best->cost : any_cost, by_bytes.cost_bound,
                             wait.for_looks(policy::repair_looks, q.o.work), placing);
  if (!other) return best ? *std::move(best) : unknown_assignment(q, by_bytes.nodes);
  other->layout.work += by_bytes.nodes;
  return *std::move(other);
}

// Solves at effort fast and at the effort asked for. Better filled memories can refuse assignments, which may cost more
// in the end. Effort fast takes a fraction of the time and comes first if the caller may end the work. The order does
// not change the answer.
memories_plan at_both_efforts(const asked& q, const patience& wait) {
  if (q.o.work == effort::fast) return at_effort(q, wait);
  const asked quick = q.at(effort::fast);
  std::optional<memories_plan> other;
  if (wait.may_end()) {
    other = at_effort(quick, wait);
    if (wait.over()) return *std::move(other);
  }
  memories_plan found = at_effort(q, wait);
  if (found.least() || found.layout.status == status::infeasible) return found;
  if (!other) other = at_effort(quick, wait);
  other->layout.work += found.layout.work;
  other->cost_bound = std::max(other->cost_bound, std::min(found.cost_bound, other->cost));
  const bool is_better = other->layout.has_offsets() && (!found.layout.has_offsets() || other->cost < found.cost);
  return is_better ? *std::move(other) : std::move(found);
}

// Puts each bundle that may use an unbounded memory into the cheapest one. Returns nothing if another bundle has a
// choice or does not fit.
std::optional<memories_plan> in_endless_memories(const asked& q, const patience& wait) {
  if (!has_choice(q.bundles)) return {};
  std::vector<index> memory_of;
  double cost = 0;
  for (std::size_t u = 0; u < q.bundles.size(); ++u) {
    const std::vector<index>& choices = q.bundles[u].memories;
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < choices.size(); ++k) {
      if (choices.size() > 1 && q.p.memories[choices[k]].capacity) continue;
      if (!best || q.cost[u][k] < q.cost[u][*best]) best = k;
    }
    if (!best) return {};
    memory_of.push_back(choices[*best]);
    cost += q.cost[u][*best];
  }
  laid_out placed = place(q, memory_of, wait);
  if (placed.full) return {};
  return chosen_plan(q, std::move(placed.answer), cost, 0);
}

}  // namespace

memories_plan solve_memories(const problem& p, const std::vector<bundle>& bundles,
                             const std::vector<std::vector<double>>& cost, const options& o, const patience& wait) {
  const argument all = spread_bound_within(p, o.work != effort::fast, wait);
  for (const bundle& u : bundles) {
    const auto takes = [&](index m) { return !p.memories[m].capacity || u.size <= *p.memories[m].capacity; };
    if (std::any_of(u.memories.begin(), u.memories.end(), takes)) continue;
    return {.layout = refused(status::infeasible, "buffer fits none of its memories", u.members.front(), u.size, all)};
  }
  const bool well = !has_choice(bundles) || bundles.size() <= policy::most_well_moved_bundles;
  const asked q{p, bundles, cost, o, all, well ? effort::normal : effort::fast};
  memories_plan found = at_both_efforts(q, wait);
  if (found.layout.status != status::unknown) return found;
  // A slightly late plan is a plan.
  std::optional<memories_plan> late;
  if (wait.over()) late = repaired_plan(q, {}, any_cost, 0, patience::of_looks(policy::late_repair_looks), wait);
  if (!late) late = in_endless_memories(q, wait.for_looks(policy::memories_looks, o.work));
  return late ? *std::move(late) : std::move(found);
}

}  // namespace berth::plan
