#include "plan/wishes/reuse.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "plan/policy.hpp"
#include "plan/single/parts.hpp"
#include "plan/single/single.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

bool same_place(const plan& answer, index a, index b) {
  return (answer.memory_of.empty() || answer.memory_of[a] == answer.memory_of[b]) &&
         (answer.slab_of.empty() || answer.slab_of[a] == answer.slab_of[b]);
}

// Returns whether the penalty is paid: the two share bytes.
bool shares(const problem& p, const plan& answer, const reuse_penalty& r) {
  const bytes a = answer.offset(r.a), b = answer.offset(r.b);
  return same_place(answer, r.a, r.b) && a < b + p.footprint(r.b) && b < a + p.footprint(r.a) &&
         p.footprint(r.a) != 0 && p.footprint(r.b) != 0;
}

bool live_together(const buffer& a, const buffer& b) {
  const interval* x = a.lifetimes.empty() ? &a.live : a.lifetimes.data();
  const interval* y = b.lifetimes.empty() ? &b.live : b.lifetimes.data();
  const interval* const x_end = x + std::max<std::size_t>(1, a.lifetimes.size());
  const interval* const y_end = y + std::max<std::size_t>(1, b.lifetimes.size());
  while (x != x_end && y != y_end) {
    if (x->lower < y->upper && y->lower < x->upper) return true;
    if (x->upper <= y->upper) {
      ++x;
    } else {
      ++y;
    }
  }
  return false;
}

// Returns how far the buffers of memory m may reach if penalties come before the arena; nothing if they do not.
std::optional<bytes> room_of(const problem& p, const options& o, index m) {
  if (!o.penalty_first || o.work == effort::fast || p.max_slab) return std::nullopt;
  const std::optional<bytes>& capacity = p.memories.empty() ? p.capacity : p.memories[m].capacity;
  return capacity ? std::optional{std::min(*capacity, max_address)} : std::nullopt;
}

struct byte_range {
  bytes lo = 0;
  bytes hi = 0;
};

class local_search {
 public:
  local_search(const problem& p, const options& o, plan& answer)
      : p_{p}, options_{o}, answer_{answer}, partners_(p.buffers.size()), apart_(p.buffers.size()) {
    for (const reuse_penalty& r : p.reuse_penalties) {
      partners_[r.a].push_back({r.b, r.weight});
      partners_[r.b].push_back({r.a, r.weight});
    }
    for (const pair& s : p.separations) {
      apart_[s.a].push_back(s.b);
      apart_[s.b].push_back(s.a);
    }
    if (p.conflicts) {
      for (const pair& c : *p.conflicts) {
        apart_[c.a].push_back(c.b);
        apart_[c.b].push_back(c.a);
      }
    }
  }

  // Moves each buffer with a penalty to a cheaper place; returns whether any moved.
  bool round(const patience& wait) {
    bool changed = false;
    for (index i = 0; i < p_.buffers.size() && !wait.was_over(); ++i) {
      if (!movable(i) || cost_at(i, answer_.offset(i)) <= 0 || wait.over(p_.buffers.size())) continue;
      changed |= move(i, wait);
    }
    return changed;
  }

 private:
  struct partner {
    index other = 0;
    double weight = 0;
  };

  bool movable(index i) const {
    const buffer& b = p_.buffers[i];
    return !partners_[i].empty() && !b.offset && !b.alias_group && p_.footprint(i) != 0;
  }

  double cost_at(index i, bytes offset) const {
    double cost = 0;
    for (const partner& other : partners_[i]) {
      const bytes at = answer_.offset(other.other);
      if (same_place(answer_, i, other.other) && offset < at + p_.footprint(other.other) &&
          at < offset + p_.footprint(i) && p_.footprint(other.other) != 0) {
        cost += other.weight;
      }
    }
    return cost;
  }

  // Returns the ranges in which buffer i may not lie, in order, and the reach of its slab.
  std::pair<std::vector<byte_range>, bytes> forbidden(index i) const {
    std::vector<byte_range> taken;
    const index memory = answer_.memory_of.empty() ? 0 : answer_.memory_of[i];
    bytes reach = room_of(p_, options_, memory).value_or(0);
    if (!p_.memories.empty()) {
      for (const auto& [lo, hi] : p_.memories[memory].reserved) taken.push_back({lo, hi});
    }
    for (index j = 0; j < p_.buffers.size(); ++j) {
      if (!same_place(answer_, i, j)) continue;
      reach = std::max(reach, answer_.offset(j) + p_.footprint(j));
      if (i != j && p_.footprint(j) != 0 && !p_.conflicts && live_together(p_.buffers[i], p_.buffers[j])) {
        taken.push_back({answer_.offset(j), answer_.offset(j) + p_.footprint(j)});
      }
    }
    for (const index j : apart_[i]) {
      if (same_place(answer_, i, j) && p_.footprint(j) != 0) {
        taken.push_back({answer_.offset(j), answer_.offset(j) + p_.footprint(j)});
      }
    }
    std::sort(taken.begin(), taken.end(), [](const byte_range& a, const byte_range& b) { return a.lo < b.lo; });
    return {taken, reach};
  }

  // Joins ranges in order that touch or overlap.
  static std::vector<byte_range> merged(const std::vector<byte_range>& taken) {
    std::vector<byte_range> out;
    for (const byte_range& r : taken) {
      if (out.empty() || r.lo > out.back().hi) {
        out.push_back(r);
      } else {
        out.back().hi = std::max(out.back().hi, r.hi);
      }
    }
    return out;
  }

  bool move(index i, const patience& wait) {
    const auto found = forbidden(i);
    const std::vector<byte_range>& taken = found.first;
    const bytes reach = found.second;
    const index memory = answer_.memory_of.empty() ? 0 : answer_.memory_of[i];
    bytes alignment = p_.alignment_of(i);
    if (!p_.memories.empty()) alignment = std::lcm(alignment, p_.memories[memory].alignment);
    const bytes size = p_.footprint(i);
    const std::vector<byte_range> apart = merged(taken);
    const auto is_free = [&](bytes at) {
      const auto next =
          std::partition_point(apart.begin(), apart.end(), [at](const byte_range& r) { return r.hi <= at; });
      return next == apart.end() || next->lo >= at + size;
    };
    // Only the edges of other blocks can be better than places between them.
    std::vector<bytes> candidates{0};
    const auto beside = [&](bytes lo, bytes hi) {
      if (hi <= reach) candidates.push_back(align_up(hi, alignment));
      if (lo >= size) candidates.push_back(align_down(lo - size, alignment));
    };
    for (const byte_range& r : taken) beside(r.lo, r.hi);
    for (const partner& other : partners_[i]) {
      if (same_place(answer_, i, other.other)) {
        beside(answer_.offset(other.other), answer_.offset(other.other) + p_.footprint(other.other));
      }
    }
    if (reach >= size) candidates.push_back(align_down(reach - size, alignment));
    bytes best = answer_.offset(i);
    double least = cost_at(i, best);
    for (const bytes at : candidates) {
      if (at + size > reach || !is_free(at)) continue;
      if (wait.over(partners_[i].size())) break;
      const double cost = cost_at(i, at);
      if (cost >= least) continue;
      least = cost;
      best = at;
    }
    if (best == answer_.offset(i)) return false;
    answer_.offsets[i] = best;
    return true;
  }

  const problem& p_;
  const options& options_;
  plan& answer_;
  std::vector<std::vector<partner>> partners_;
  std::vector<std::vector<index>> apart_;
};

// Finds the least penalty of one place (a memory, or a slab of one) whose buffers and arena stay. Branches on each
// paying pair: first keeps it apart by a new plan with one more separation, then lets it pay. Exact if every plan is
// found or refuted.
class pairs_apart {
 public:
  // `place` has the buffers `members` of the whole problem, and the arena as its capacity.
  pairs_apart(problem place, const std::vector<index>& members, const problem& whole, const options& o,
              const patience& wait)
      : place_{std::move(place)}, options_{o}, wait_{wait} {
    std::vector<index> inside(whole.buffers.size(), none);
    for (index k = 0; k < members.size(); ++k) inside[members[k]] = k;
    for (const reuse_penalty& r : whole.reuse_penalties) {
      if (inside[r.a] != none && inside[r.b] != none)
        place_.reuse_penalties.push_back({inside[r.a], inside[r.b], r.weight});
    }
    std::stable_sort(place_.reuse_penalties.begin(), place_.reuse_penalties.end(),
                     [](const reuse_penalty& a, const reuse_penalty& b) { return a.weight > b.weight; });
    let_be_.resize(place_.reuse_penalties.size());
  }

  [[nodiscard]] std::size_t pairs() const { return place_.reuse_penalties.size(); }

  // Returns offsets by member that pay least, no more than those given; adds nodes to `spent`.
  std::vector<bytes> least(std::vector<bytes> offsets, std::uint64_t& spent) {
    best_.offsets = std::move(offsets);
    least_ = reuse_penalty_of(place_, best_);
    descend(plan{best_}, 0, spent);
    return std::move(best_.offsets);
  }

 private:
  static constexpr index none = ~index{0};

  // Returns the paying pair of the greatest weight that may not pay yet.
  [[nodiscard]] std::optional<std::size_t> dearest(const plan& layout) const {
    for (std::size_t k = 0; k < pairs(); ++k) {
      if (!let_be_[k] && shares(place_, layout, place_.reuse_penalties[k])) return k;
    }
    return std::nullopt;
  }

  void descend(plan layout, double paid, std::uint64_t& spent) {
    const double cost = reuse_penalty_of(place_, layout);
    if (cost < least_) {
      least_ = cost;
      best_.offsets = layout.offsets;
    }
    const auto k = dearest(layout);
    if (!k || paid >= least_ || plans_++ >= policy::most_reuse_plans || spent >= policy::most_reuse_nodes ||
        wait_.over())
      return;
    const reuse_penalty& pair = place_.reuse_penalties[*k];
    place_.separations.push_back({pair.a, pair.b});
    if (validate(place_)) {  // members of one group share bytes whatever their base is
      options o = options_;
      o.node_limit = policy::most_reuse_nodes - spent;
      plan apart = solve_single(place_, o, wait_);
      spent += apart.work;
      if (apart.has_offsets()) descend(std::move(apart), paid, spent);
    }
    place_.separations.pop_back();
    let_be_[*k] = true;
    if (paid + pair.weight < least_) descend(std::move(layout), paid + pair.weight, spent);
    let_be_[*k] = false;
  }

  problem place_;
  const options& options_;
  const patience& wait_;
  std::vector<bool> let_be_;  // by penalty
  plan best_;
  double least_ = 0;
  int plans_ = 0;
};

// Searches place by place those of not too many buffers.
void pay_least(const problem& p, const options& o, const patience& wait, plan& answer) {
  std::map<std::pair<index, index>, std::vector<index>> places;
  for (index i = 0; i < p.buffers.size(); ++i) {
    places[{answer.memory_of.empty() ? 0 : answer.memory_of[i], answer.slab_of.empty() ? 0 : answer.slab_of[i]}]
        .push_back(i);
  }
  std::uint64_t spent = 0;
  part_maker parts{p};
  for (const auto& [where, members] : places) {
    if (members.size() > policy::most_paired_buffers) continue;
    problem place = parts.part(where.first, members);
    bytes top = 0;
    std::vector<bytes> offsets;
    for (const index i : members) {
      offsets.push_back(answer.offset(i));
      top = std::max(top, answer.offset(i) + p.footprint(i));
    }
    (place.memories.empty() ? place.capacity : place.memories[0].capacity) = room_of(p, o, where.first).value_or(top);
    pairs_apart search{std::move(place), members, p, o, wait};
    if (search.pairs() == 0) continue;
    offsets = search.least(std::move(offsets), spent);
    for (std::size_t k = 0; k < members.size(); ++k) answer.offsets[members[k]] = offsets[k];
  }
  answer.work += spent;
}

bytes arena_of(const problem& p, const plan& answer) {
  std::map<std::pair<index, index>, bytes> tops;
  for (index i = 0; i < p.buffers.size(); ++i) {
    bytes& top =
        tops[{answer.memory_of.empty() ? 0 : answer.memory_of[i], answer.slab_of.empty() ? 0 : answer.slab_of[i]}];
    top = std::max(top, answer.offset(i) + p.footprint(i));
  }
  bytes sum = 0;
  for (const auto& [where, top] : tops) sum += top;
  return sum;
}

// Asks for a plan in the same arena that pays none of the greatest penalties: as many as can be kept apart.
void separate_the_dearest(const problem& p, const options& o, const patience& wait, plan& answer) {
  if (!p.memories.empty() || p.max_slab || p.buffers.size() > policy::most_separated_buffers) return;
  std::vector<reuse_penalty> dearest = p.reuse_penalties;
  std::stable_sort(dearest.begin(), dearest.end(),
                   [](const reuse_penalty& a, const reuse_penalty& b) { return a.weight > b.weight; });
  problem strict = p;
  strict.reuse_penalties.clear();
  const std::optional<bytes> room = room_of(p, o, 0);
  strict.capacity = room.value_or(answer.arena_bytes);
  for (std::size_t count = dearest.size(); count > 0 && !wait.over(); count /= 2) {
    strict.separations = p.separations;
    for (std::size_t k = 0; k < count; ++k) strict.separations.push_back({dearest[k].a, dearest[k].b});
    if (!validate(strict)) return;  // a penalty between two members of one group is always paid
    plan other = solve_single(strict, o, wait);
    answer.work += other.work;
    if (!other.has_offsets()) continue;
    if (reuse_penalty_of(p, other) < reuse_penalty_of(p, answer) && (room || other.arena_bytes == answer.arena_bytes)) {
      answer.offsets = std::move(other.offsets);
    }
    return;
  }
}

}  // namespace

double reuse_penalty_of(const problem& p, const plan& answer) {
  double sum = 0;
  for (const reuse_penalty& r : p.reuse_penalties) sum += shares(p, answer, r) ? r.weight : 0;
  return sum;
}

void lower_reuse_penalty(const problem& p, const options& o, const patience& wait, plan& answer) {
  if (uses(technique::reuse_apart) && reuse_penalty_of(p, answer) > 0 && o.work != effort::fast)
    separate_the_dearest(p, o, wait, answer);
  local_search moves{p, o, answer};
  int rounds = policy::reuse_rounds;
  const patience few = wait.for_looks(policy::reuse_looks);
  while (uses(technique::reuse_moves) && rounds-- > 0 && moves.round(few)) continue;
  if (uses(technique::reuse_pairs) && reuse_penalty_of(p, answer) > 0 && o.work != effort::fast)
    pay_least(p, o, wait, answer);
  answer.arena_bytes = arena_of(p, answer);  // a slab may have become shorter
  if (answer.status == status::optimal && answer.arena_bytes > answer.lower_bound_bytes) {
    answer.status = status::feasible;  // by the arena, which gave way
  }
  answer.reuse_penalty = reuse_penalty_of(p, answer);
}

}  // namespace berth::plan
