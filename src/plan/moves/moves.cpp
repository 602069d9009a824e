#include "plan/moves/moves.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "berth/plan/bound.hpp"
#include "plan/model/within.hpp"
#include "plan/moves/mover.hpp"
#include "plan/moves/residence.hpp"
#include "plan/policy.hpp"
#include "plan/several/one_memory.hpp"
#include "plan/single/parts.hpp"
#include "plan/single/single.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

// Plans whole lives in one memory each: solve() without moves, in the memories that the uses demand.
std::optional<plan> without_moves(problem p, const options& o, const patience& wait) {
  std::vector<double> touched(p.buffers.size(), 0);
  for (index i = 0; i < p.buffers.size(); ++i) {
    for (const use& u : p.buffers[i].uses) {
      touched[i] += u.touched;
      if (!u.memory) continue;
      auto& allowed = p.buffers[i].memories;
      if (allowed.size() == 1 && allowed[0] != *u.memory) return std::nullopt;
      allowed = {*u.memory};
    }
    p.buffers[i].uses = {};  // the planner copies buffers often
  }
  auto found = solve_within(p, o, wait, touched);
  if (!found || !found->has_offsets()) return std::nullopt;
  return std::move(*found);
}

std::vector<residence> residences_of(const moving_model& model, const plan& layout) {
  std::vector<residence> where;
  for (const moving_item& one : model.items) {
    where.push_back(
        {{.memory = layout.memory_of[one.members.front()], .begin = one.first, .ready = one.first, .end = one.last}});
  }
  return where;
}

// Returns the plan in which every buffer stays in one memory.
plan staying(const problem& p, plan answer) {
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    const interval life = b.lifetimes.empty() ? b.live : interval{b.lifetimes.front().lower, b.lifetimes.back().upper};
    answer.stays.push_back({.buffer = i, .memory = answer.memory_of[i], .live = life, .ready = life.lower});
    for (const use& u : p.buffers[i].uses) answer.access += u.touched * p.memories[answer.memory_of[i]].cost;
  }
  answer.unmoved = answer.cost = answer.access;
  return answer;
}

// Returns the least cost of all uses over all places of the buffers.
double least_access(const problem& p) {
  double sum = 0, cheapest = infinite;
  for (const memory& m : p.memories) cheapest = std::min(cheapest, m.cost);
  for (index i = 0; i < p.buffers.size(); ++i) {
    double least = p.buffers[i].memories.empty() ? cheapest : infinite;
    for (const index m : p.buffers[i].memories) least = std::min(least, p.memories[m].cost);
    for (const use& u : p.buffers[i].uses) sum += u.touched * (u.memory ? p.memories[*u.memory].cost : least);
  }
  return sum;
}

// Returns the stays and moves of residences; the offsets are left empty.
plan moves_of(const problem& p, const moving_model& model, const timed_residences& found) {
  struct origin {
    index buffer, item, leg;
  };
  std::vector<origin> origins;
  for (index k = 0; k < model.items.size(); ++k) {
    for (const index i : model.items[k].members) {
      for (index l = 0; l < found.where[k].size(); ++l) origins.push_back({i, k, l});
    }
  }
  std::sort(origins.begin(), origins.end(), [&](const origin& a, const origin& b) {
    return a.buffer != b.buffer ? a.buffer < b.buffer : a.leg < b.leg;  // legs are in the order of their begins
  });
  plan answer;
  std::vector<std::vector<index>> stay_of(model.items.size());  // of movable items, by leg
  for (const origin& o : origins) {
    const leg& l = found.where[o.item][o.leg];
    stay_of[o.item].push_back(static_cast<index>(answer.stays.size()));
    stay s{.buffer = o.buffer,
           .memory = l.memory,
           .live = {model.begins[l.begin], model.begins[l.end]},
           .ready = model.begins[l.ready]};
    const buffer& b = p.buffers[o.buffer];
    if (!model.items[o.item].movable) {
      s.live = b.lifetimes.empty() ? b.live : interval{b.lifetimes.front().lower, b.lifetimes.back().upper};
      s.ready = s.live.lower;
    }
    answer.stays.push_back(s);
  }
  for (const copy& c : found.timing.copies) {
    const leg& to = found.where[c.item][c.leg];
    answer.moves.push_back({.buffer = model.items[c.item].members.front(),
                            .from = stay_of[c.item][static_cast<std::size_t>(to.source)],
                            .to = stay_of[c.item][c.leg],
                            .during = {model.begins[c.start], model.begins[c.due]},
                            .begin = c.begin,
                            .done = c.done});
  }
  answer.access = found.timing.access;
  answer.stall = found.timing.stall;
  answer.cost = found.timing.cost();
  answer.copied = found.timing.copied;
  return answer;
}

std::vector<index> members_in(const problem& stays, index memory) {
  std::vector<index> members;
  for (index i = 0; i < stays.buffers.size(); ++i) {
    if (stays.buffers[i].memories.front() == memory) members.push_back(i);
  }
  return members;
}

// A memory that its stays do not fit by address.
struct overfull {
  index memory = 0;
  bytes live = 0;            // in it at once
  std::vector<index> above;  // stays that end above its capacity in a layout as if it had none
};

std::optional<overfull> overfull_memory(const problem& stays, options o, const patience& wait) {
  if (stays.buffers.size() > policy::most_stays_searched) o.work = effort::fast;
  for (index m = 0; m < stays.memories.size(); ++m) {
    const auto capacity = stays.memories[m].capacity;
    const std::vector<index> members = members_in(stays, m);
    problem part = part_of(stays, m, members);
    if (!stays.max_slab) part.memories.front().capacity.reset();
    const plan layout = solve_one_memory(part, stays.max_slab, o, wait);
    overfull found{.memory = m, .live = max_live(part)};
    // Pins that clash, reserved ranges and slabs fill a memory without a capacity too.
    if (!layout.has_offsets()) return found;
    for (index k = 0; capacity && k < members.size(); ++k) {
      if (layout.offset(k) + part.footprint(k) > *capacity) found.above.push_back(members[k]);
    }
    if (capacity && layout.arena() > *capacity) return found;
  }
  return std::nullopt;
}

// Counts sizes rounded up to the alignment, as a buffer takes its bytes up to the next aligned start. The topmost
// buffer does not, so this may lose an existing plan. Returns whether it changed anything.
bool round_up(const problem& p, moving_model& model) {
  bool changed = false;
  for (moving_item& one : model.items) {
    const bytes rounded = align_up(one.footprint, p.alignment_of(one.members.front()));
    const bool fits = std::all_of(one.memories.begin(), one.memories.end(), [&](index m) {
      return !model.limits[m] || one.footprint > *model.limits[m] || rounded <= *model.limits[m];
    });
    if (!one.movable || !fits || rounded == one.footprint) continue;
    one.footprint = rounded;
    changed = true;
  }
  return changed;
}

// The limit of pairs of stays that separations and penalties name, besides one for each of them: some tens of
// megabytes, and about a second.
constexpr std::uint64_t most_stay_pairs = 500'000;

// Lists the stays of each buffer in the order of their memories, so stays of two buffers in one memory are found fast.
class stays_in_memories {
 public:
  stays_in_memories(std::size_t buffers, std::span<const stay> stays) : stays_{stays}, of_(buffers) {
    for (index k = 0; k < stays.size(); ++k) of_[stays[k].buffer].push_back(k);
    for (std::vector<index>& list : of_) {
      std::stable_sort(list.begin(), list.end(), [&](index x, index y) { return stays[x].memory < stays[y].memory; });
    }
  }

  [[nodiscard]] const std::vector<index>& of(index buffer) const { return of_[buffer]; }

  // Calls visit(stay of a, stays of b) for every stay of a, with those in its memory.
  template <class Visit>
  void for_each_in_one_memory(index a, index b, Visit visit) const {
    const std::vector<index>& theirs = of_[b];
    for (const index x : of_[a]) {
      const index m = stays_[x].memory;
      const auto first =
          std::partition_point(theirs.begin(), theirs.end(), [&](index y) { return stays_[y].memory < m; });
      const auto last = std::partition_point(first, theirs.end(), [&](index y) { return stays_[y].memory == m; });
      visit(x, std::span{theirs}.subspan(static_cast<std::size_t>(first - theirs.begin()),
                                         static_cast<std::size_t>(last - first)));
    }
  }

 private:
  std::span<const stay> stays_;
  std::vector<std::vector<index>> of_;
};

std::vector<pair> different_separations(const problem& p) {
  std::set<std::pair<index, index>> seen;
  std::vector<pair> out;
  for (const pair& s : p.separations) {
    if (seen.insert(std::minmax(s.a, s.b)).second) out.push_back(s);
  }
  return out;
}

// Returns whether problem_of_stays() would list too many pairs, or look at too many stays for them.
bool too_many_pairs(const problem& p, std::span<const stay> stays) {
  const stays_in_memories all{p.buffers.size(), stays};
  const std::uint64_t most = most_stay_pairs + p.separations.size() + p.reuse_penalties.size();
  std::uint64_t pairs = 0;
  const auto exceeds = [&](const auto& named) {
    all.for_each_in_one_memory(named.a, named.b, [&](index, std::span<const index> theirs) {
      pairs += std::max<std::uint64_t>(1, theirs.size());
    });
    return pairs > most;
  };
  const std::vector<pair> separations = different_separations(p);
  return std::any_of(separations.begin(), separations.end(), exceeds) ||
         std::any_of(p.reuse_penalties.begin(), p.reuse_penalties.end(), exceeds);
}

std::uint64_t visit_limit(const options& o, std::size_t items) {
  if (o.node_limit != 0) return o.node_limit;
  if (o.work == effort::fast) return 0;
  return (o.work == effort::best ? policy::best_move_factor : 1) *
         (policy::move_visits + policy::move_visits_an_item * items);
}

}  // namespace

problem problem_of_stays(const problem& p, std::span<const stay> stays) {
  problem made = p;
  made.steps.clear();
  made.links.clear();
  // A buffer of many uses may have many stays, none of which needs a copy of the uses.
  std::vector<buffer> plain = std::exchange(made.buffers, {});
  for (buffer& b : plain) b.uses = {};
  const stays_in_memories all{p.buffers.size(), stays};
  for (const stay& s : stays) {
    buffer b = plain[s.buffer];
    b.memories = {s.memory};
    if (all.of(s.buffer).size() > 1) {
      b.live = s.live;
      b.lifetimes.clear();
    }
    made.buffers.push_back(std::move(b));
  }
  made.separations.clear();
  made.reuse_penalties.clear();
  for (const pair& s : different_separations(p)) {
    all.for_each_in_one_memory(s.a, s.b, [&](index x, std::span<const index> theirs) {
      for (const index y : theirs) made.separations.push_back({x, y});
    });
  }
  for (const reuse_penalty& r : p.reuse_penalties) {
    all.for_each_in_one_memory(r.a, r.b, [&](index x, std::span<const index> theirs) {
      for (const index y : theirs) made.reuse_penalties.push_back({x, y, r.weight});
    });
  }
  return made;
}

namespace {

// Sends stays above their memory's capacity away, until there are none.
bool make_room(const problem& p, const moving_model& model, const options& o, const patience& wait,
               std::optional<overfull> crowded, timed_residences& found) {
  std::vector<index> item_of(p.buffers.size());
  for (index k = 0; k < model.items.size(); ++k) {
    for (const index i : model.items[k].members) item_of[i] = k;
  }
  plan so_far = moves_of(p, model, found);
  constexpr int most_rounds = 8;  // each leaves less in the way of the next
  for (int round = 0; round < most_rounds && !wait.over(); ++round) {
    std::vector<index> items;
    for (const index s : crowded->above) items.push_back(item_of[so_far.stays[s].buffer]);
    std::sort(items.begin(), items.end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    if (items.empty() || !send_away(model, crowded->memory, items, found)) return false;
    so_far = moves_of(p, model, found);
    if (too_many_pairs(p, so_far.stays)) return false;
    crowded = overfull_memory(problem_of_stays(p, so_far.stays), o, wait);
    if (!crowded) return true;
  }
  return false;
}

// The result of the search so far.
struct progress_of_moves {
  plan best;
  std::optional<double> least_cost;  // of the first residences: later ones have lower limits
  bool cut_short = false;            // a deadline has changed what it came to
};

// Runs a stage whose result only serves later ones, in half of the time that is left.
template <class Stage>
auto in_half(const patience& wait, progress_of_moves& so_far, Stage stage) {
  const patience half = wait.for_half();
  auto result = stage(half);
  so_far.cut_short = so_far.cut_short || (half.was_over() && !wait.was_over());
  return result;
}

enum class placing : std::uint8_t { done, full, never };

// Places residences that are cheaper than the best. If not done, a memory is full, in `stays`, or they cannot be placed
// in any memories.
placing place(const problem& p, const moving_model& model, const timed_residences& found, const options& o,
              const patience& wait, plan& best, problem& stays) {
  plan next = moves_of(p, model, found);
  if (too_many_pairs(p, next.stays)) {
    if (!best.has_offsets()) best.reason = "separations and penalties name too many pairs of stays";
    return placing::never;
  }
  stays = problem_of_stays(p, next.stays);
  const std::uint64_t quick = policy::quick_placing_looks + policy::quick_placing_looks_a_stay * next.stays.size();
  auto placed = solve_within(stays, o, o.work == effort::fast ? wait.for_looks(quick) : wait);
  if (!placed) return placing::never;  // so many stays that their sizes overflow together
  if (!placed->has_offsets()) return placing::full;
  placed->work += best.work;
  placed->memory_of.clear();  // solve_within() names no memory if there is one
  for (const stay& s : next.stays) placed->memory_of.push_back(s.memory);
  placed->stays = std::move(next.stays);
  placed->moves = std::move(next.moves);
  placed->access = next.access;
  placed->stall = next.stall;
  placed->copied = next.copied;
  placed->cost = next.cost;
  placed->unmoved = best.unmoved;
  best = std::move(*placed);
  return placing::done;
}

// Finds residences that are cheaper than the best, and places them. If they do not fit by address, drops those in the
// way, then lowers a limit and tries again. Returns whether the first ones fitted.
bool improve(const problem& p, moving_model model, std::vector<residence> start, const options& o, const patience& wait,
             progress_of_moves& so_far) {
  plan& best = so_far.best;
  bool fitted = false;
  for (int attempt = 0; attempt < 12; ++attempt) {
    std::uint64_t visits = 0;
    const std::uint64_t most_visits = visit_limit(o, model.items.size()) / (attempt == 0 ? 1 : 4);
    bool whole = true;  // the search came to its end
    timed_residences found = in_half(wait, so_far, [&](const patience& half) {
      timed_residences in_time = find_residences(model, start, most_visits, o, half, visits);
      whole = !half.was_over();
      return in_time;
    });
    best.work += visits;
    if (!so_far.least_cost) so_far.least_cost = found.least_cost;
    if (found.where.size() < model.items.size()) return fitted || attempt == 0;
    if (attempt != 0 && wait.over()) return true;
    const auto is_cheaper = [&] { return !best.has_offsets() || found.timing.cost() < best.cost; };
    if (!is_cheaper()) return fitted || attempt == 0;
    problem stays;
    const placing got =
        in_half(wait, so_far, [&](const patience& half) { return place(p, model, found, o, half, best, stays); });
    if (got == placing::never) return true;
    if (got == placing::done) {
      fitted = fitted || attempt == 0;
      if (whole || wait.over()) return fitted;
      start = std::move(found.where);  // from where it was when half of the time was over
      continue;
    }
    auto crowded = in_half(wait, so_far, [&](const patience& half) { return overfull_memory(stays, o, half); });
    if (!crowded || crowded->live == 0) return false;
    model.limits[crowded->memory] = crowded->live - 1;
    if (attempt == 0 && !p.max_slab && make_room(p, model, o, wait, std::move(crowded), found) && is_cheaper()) {
      const placing less = place(p, model, found, o, wait, best, stays);
      if (less == placing::done && o.work == effort::fast) return true;
    }
  }
  return false;
}

}  // namespace

result<plan> solve_moves(const problem& p, const options& o, const patience& wait) {
  progress_of_moves so_far;
  std::optional<plan> whole = in_half(wait, so_far, [&](const patience& half) { return without_moves(p, o, half); });
  moving_model model = model_of(p);
  std::vector<residence> start;
  plan& answer = so_far.best;
  const double least_without_moves = whole && p.links.empty() ? whole->cost_bound : 0;
  if (whole) {
    if (model.countable) start = residences_of(model, *whole);
    answer = staying(p, std::move(*whole));
  } else {
    answer = refused(status::unknown, "no residences were found that fit the memories", 0, 0);
  }
  if (model.countable) {
    const std::uint64_t looks = policy::moves_looks + policy::moves_looks_an_item * model.items.size();
    const patience together = wait.for_looks(looks, o.work);
    const bool fitted = improve(p, model, start, o, together, so_far);
    if (!fitted && round_up(p, model)) improve(p, model, start, o, together, so_far);
    if (!answer.has_offsets() && o.work != effort::fast) {
      // Residences of higher cost may fit by address if the cheapest ones do not.
      options quick = o;
      quick.work = effort::fast;
      improve(p, model_of(p), start, quick, together, so_far);
    }
    answer.cost_bound = std::max(*so_far.least_cost, least_without_moves);
  } else {
    answer.cost_bound = least_access(p);
    if (!answer.has_offsets()) answer.reason = "there are too many memories and ticks to look for moves";
  }
  answer.deadline_hit = wait.was_over() || so_far.cut_short;
  if (!answer.has_offsets()) return answer;
  if (const auto broken = verify_moves(p, answer)) return error{errc::internal, broken->rule, broken->a};
  return std::move(so_far.best);
}

}  // namespace berth::plan
