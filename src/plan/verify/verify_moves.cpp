// The check of a plan with moves. Shares no code with the planner.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

violation at_buffer(const char* rule, index i) {
  return {rule, i, i, 0};
}

bool contains(const interval& all, const interval& part) {
  return all.lower <= part.lower && part.upper <= all.upper;
}

interval whole_life(const buffer& b) {
  return b.lifetimes.empty() ? b.live : interval{b.lifetimes.front().lower, b.lifetimes.back().upper};
}

// Returns whether they differ more than sums in another order may.
bool differ(double a, double b) {
  return !(std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b)));
}

// The places of each buffer's stays. Stays of one buffer are equally long, so in their order those that share bytes
// with a range are neighbours. Pairs of stays, which may be quadratic in the plan, are counted and not looked at.
class stays_by_place {
 public:
  // Contract: `layout` has passed verify_places().
  stays_by_place(const problem& p, const plan& answer) : p_{p}, of_(p.buffers.size()) {
    for (index s = 0; s < answer.stays.size(); ++s) {
      const stay& one = answer.stays[s];
      if (p.footprint(one.buffer) == 0) continue;
      const index slab = answer.slab_of.empty() ? 0 : answer.slab_of[s];
      of_[one.buffer].emplace_back(one.memory, slab, answer.offsets[s]);
    }
    for (std::vector<place>& list : of_) std::sort(list.begin(), list.end());
  }

  // Returns the number of pairs of a stay of a and one of b that share bytes.
  std::uint64_t shared(index a, index b) {
    if (of_[a].size() > of_[b].size()) std::swap(a, b);
    const auto [known, added] = shared_.try_emplace({a, b}, 0);
    if (!added) return known->second;
    for (const auto& [memory, slab, low] : of_[a]) {
      const bytes above = p_.footprint(b) - 1;  // what begins at low - above reaches into the range
      const auto first =
          std::lower_bound(of_[b].begin(), of_[b].end(), place{memory, slab, low - std::min(low, above)});
      const auto last = std::lower_bound(first, of_[b].end(), place{memory, slab, low + p_.footprint(a)});
      known->second += static_cast<std::uint64_t>(last - first);
    }
    return known->second;
  }

 private:
  using place = std::tuple<index, index, bytes>;  // memory, slab, offset
  const problem& p_;
  std::vector<std::vector<place>> of_;
  std::map<std::pair<index, index>, std::uint64_t> shared_;
};

struct moves_verifier {
  const problem& p;
  const plan& answer;
  std::vector<std::vector<index>> stays_of;  // by buffer
  std::vector<index> move_into;              // by stay
  std::map<std::pair<index, index>, const link*> link_between;

  std::optional<violation> shape();
  std::optional<violation> lives() const;
  std::optional<violation> copies() const;
  std::optional<violation> uses() const;
  std::optional<violation> places() const;
  std::optional<violation> links() const;
  std::optional<violation> times() const;

  // Calls visit(use, stays) for every use of buffer i, with the stays that are there at its tick. After lives(), there
  // is at most one in a memory, so that all calls together take no longer than a sort.
  template <class Visit>
  void for_each_use(index i, Visit visit) const;

  violation at_stay(const char* rule, index s) const { return at_buffer(rule, answer.stays[s].buffer); }
  violation at_move(const char* rule, index m) const { return at_buffer(rule, answer.moves[m].buffer); }
};

std::optional<violation> moves_verifier::shape() {
  for (const link& l : p.links) link_between.emplace(std::pair{l.from, l.to}, &l);
  stays_of.resize(p.buffers.size());
  for (index s = 0; s < answer.stays.size(); ++s) {
    const stay& one = answer.stays[s];
    if (one.buffer >= p.buffers.size()) return at_stay("a stay of a buffer there is not", s);
    const auto& allowed = p.buffers[one.buffer].memories;
    const bool may = one.memory < p.memories.size() &&
                     (allowed.empty() || std::find(allowed.begin(), allowed.end(), one.memory) != allowed.end());
    if (!may) return at_stay("a stay in a memory in which its buffer may not live", s);
    if (one.live.lower >= one.live.upper) return at_stay("a stay is empty or reversed", s);
    if (one.ready < one.live.lower || one.ready > one.live.upper) return at_stay("a stay is ready outside of it", s);
    stays_of[one.buffer].push_back(s);
  }
  move_into.assign(answer.stays.size(), no_buffer);
  for (index m = 0; m < answer.moves.size(); ++m) {
    const move& one = answer.moves[m];
    if (one.from >= answer.stays.size() || one.to >= answer.stays.size() || one.from == one.to) {
      return at_move("a move does not join two stays", m);
    }
    if (answer.stays[one.from].buffer != one.buffer || answer.stays[one.to].buffer != one.buffer) {
      return at_move("a move joins stays that are not its buffer's", m);
    }
    if (move_into[one.to] != no_buffer) return at_move("a second move into one stay", m);
    move_into[one.to] = m;
  }
  return {};
}

// Checks that each buffer begins in one stay, is somewhere throughout its life, and in a memory once at a time.
std::optional<violation> moves_verifier::lives() const {
  for (index i = 0; i < p.buffers.size(); ++i) {
    const interval life = whole_life(p.buffers[i]);
    if (stays_of[i].empty()) return at_buffer("a buffer has no stay", i);
    std::vector<interval> ready;
    std::map<index, std::vector<interval>> by_memory;
    index first = no_buffer;
    for (const index s : stays_of[i]) {
      const stay& one = answer.stays[s];
      if (!contains(life, one.live)) return at_stay("a stay outside of its buffer's life", s);
      if (move_into[s] == no_buffer) {
        if (first != no_buffer) return at_stay("a stay into which nothing is copied", s);
        if (one.live.lower != life.lower || one.ready != life.lower) {
          return at_stay("a first stay does not begin with the life", s);
        }
        first = s;
      }
      if (one.ready < one.live.upper) ready.push_back({one.ready, one.live.upper});
      by_memory[one.memory].push_back(one.live);
    }
    const buffer& b = p.buffers[i];
    const bool fixed = !b.lifetimes.empty() || b.offset || b.alias_group;
    if (fixed && stays_of[i].size() > 1) return at_stay("a buffer moves that may not", stays_of[i][1]);
    std::sort(ready.begin(), ready.end(), [](const auto& x, const auto& y) { return x.lower < y.lower; });
    tick covered = life.lower;
    for (const interval& r : ready) {
      if (r.lower > covered) break;
      covered = std::max(covered, r.upper);
    }
    if (covered < life.upper) return at_buffer("a buffer's contents are nowhere for a while", i);
    for (auto& [memory, list] : by_memory) {
      std::sort(list.begin(), list.end(), [](const auto& x, const auto& y) { return x.lower < y.lower; });
      for (std::size_t k = 1; k < list.size(); ++k) {
        if (list[k].lower < list[k - 1].upper) {
          return at_buffer("a buffer is twice in one memory", i);
        }
      }
    }
  }
  return {};
}

std::optional<violation> moves_verifier::copies() const {
  for (index m = 0; m < answer.moves.size(); ++m) {
    const move& one = answer.moves[m];
    const stay& from = answer.stays[one.from];
    const stay& to = answer.stays[one.to];
    if (one.during.lower >= one.during.upper) return at_move("a move takes no tick", m);
    if (to.live.lower != one.during.lower || to.ready != one.during.upper) {
      return at_move("a stay does not begin with the move into it", m);
    }
    if (!contains({from.ready, from.live.upper}, one.during)) {
      return at_move("the source of a move is not there throughout", m);
    }
    if (!link_between.contains({from.memory, to.memory})) return at_move("there is no link for a move", m);
  }
  return {};
}

template <class Visit>
void moves_verifier::for_each_use(index i, Visit visit) const {
  std::vector<const use*> uses;
  for (const use& u : p.buffers[i].uses) uses.push_back(&u);
  std::stable_sort(uses.begin(), uses.end(), [](const use* a, const use* b) { return a->at < b->at; });
  std::vector<const stay*> stays;
  for (const index s : stays_of[i]) stays.push_back(&answer.stays[s]);
  std::stable_sort(stays.begin(), stays.end(),
                   [](const stay* a, const stay* b) { return a->live.lower < b->live.lower; });
  std::vector<const stay*> there;
  auto next = stays.begin();
  for (const use* u : uses) {
    for (; next != stays.end() && (*next)->live.lower <= u->at; ++next) {
      if ((*next)->live.upper > u->at) there.push_back(*next);
    }
    std::erase_if(there, [u](const stay* s) { return s->live.upper <= u->at; });
    visit(*u, there);
  }
}

std::optional<violation> moves_verifier::uses() const {
  std::optional<violation> wrong;
  for (index i = 0; i < p.buffers.size() && !wrong; ++i) {
    for_each_use(i, [&](const use& u, const std::vector<const stay*>& there) {
      const bool served = std::any_of(there.begin(), there.end(), [&u](const stay* s) {
        return u.at >= s->ready && (!u.memory || *u.memory == s->memory);
      });
      if (wrong) return;
      if (!served) wrong = at_buffer("a use does not find its buffer", i);
      if (served && u.write && there.size() > 1) {
        wrong = at_buffer("a write leaves a stale copy in another stay", i);
      }
    });
  }
  return wrong;
}

// Checks as verify() of problem_of_stays() does, in its order, but for the pairs of stays that separations and
// penalties name.
std::optional<violation> moves_verifier::places() const {
  problem alone = p;
  alone.separations.clear();
  alone.reuse_penalties.clear();
  const problem stays = problem_of_stays(alone, answer.stays);
  const auto named = [&](const violation& found) {
    return found.a < answer.stays.size() ? at_stay(found.rule, found.a) : at_buffer(found.rule, no_buffer);
  };
  if (const auto found = verify_places(stays, answer)) return named(*found);
  stays_by_place placed{p, answer};
  for (const pair& s : p.separations) {
    if (placed.shared(s.a, s.b) != 0) return at_buffer("two separated buffers share bytes", s.a);
  }
  plan unpaid = answer;
  unpaid.reuse_penalty = unpaid.cost = unpaid.cost_bound = 0;
  if (const auto found = verify_within(stays, unpaid, {})) return named(*found);
  double penalty = 0;
  for (const reuse_penalty& r : p.reuse_penalties) {
    penalty += r.weight * static_cast<double>(placed.shared(r.a, r.b));
  }
  if (differ(penalty, answer.reuse_penalty)) {
    return at_buffer("the reuse penalty is not what the plan says", no_buffer);
  }
  return {};
}

// Checks that a link has one move at a time, each for as long as the link takes.
std::optional<violation> moves_verifier::links() const {
  std::map<std::pair<index, index>, std::vector<index>> on_link;
  for (index m = 0; m < answer.moves.size(); ++m) {
    const move& one = answer.moves[m];
    on_link[{answer.stays[one.from].memory, answer.stays[one.to].memory}].push_back(m);
  }
  for (auto& [ends, list] : on_link) {
    const link* const l = link_between.at(ends);
    std::sort(list.begin(), list.end(),
              [&](index a, index b) { return answer.moves[a].begin < answer.moves[b].begin; });
    double free = 0;
    for (const index m : list) {
      const move& one = answer.moves[m];
      const double takes = l->latency + static_cast<double>(p.buffers[one.buffer].size) / l->bandwidth;
      if (one.begin < free && differ(one.begin, free)) return at_move("two moves are on one link at a time", m);
      if (differ(one.done, one.begin + takes)) return at_move("a move does not take the time of its link", m);
      free = one.done;
    }
  }
  return {};
}

// Computes the modelled time again: every tick with an event, in order.
std::optional<violation> moves_verifier::times() const {
  struct moment {
    double duration = 0;
    std::vector<index> due, starting;
  };
  std::map<tick, moment> moments;
  double access = 0, stall = 0;
  bytes copied = 0;
  for (const step& s : p.steps) moments[s.at].duration += s.duration;
  for (index i = 0; i < p.buffers.size(); ++i) {
    for_each_use(i, [&](const use& u, const std::vector<const stay*>& there) {
      std::optional<double> time;
      for (const stay* s : there) {
        if (u.at < s->ready || (u.memory && *u.memory != s->memory)) continue;
        const double here = u.touched * p.memories[s->memory].cost;
        time = std::min(time.value_or(here), here);
      }
      moments[u.at].duration += *time;
      access += *time;
    });
  }
  for (index m = 0; m < answer.moves.size(); ++m) {
    moments[answer.moves[m].during.lower].starting.push_back(m);
    moments[answer.moves[m].during.upper].due.push_back(m);
    copied += p.buffers[answer.moves[m].buffer].size;
  }
  double clock = 0;
  for (const auto& [at, now] : moments) {
    double begin = clock;
    for (const index m : now.due) begin = std::max(begin, answer.moves[m].done);
    for (const index m : now.starting) {
      if (answer.moves[m].begin < begin && differ(answer.moves[m].begin, begin)) {
        return at_move("a move begins before its tick", m);
      }
    }
    stall += begin - clock;
    clock = begin + now.duration;
  }
  if (differ(access, answer.access)) return at_buffer("the access time is not what the plan says", no_buffer);
  if (differ(stall, answer.stall)) return at_buffer("the stall is not what the plan says", no_buffer);
  if (copied != answer.copied) return at_buffer("the bytes copied are not what the plan says", no_buffer);
  if (differ(answer.cost, answer.access + answer.stall)) {
    return at_buffer("the cost is not access and stall", no_buffer);
  }
  if (!(answer.cost_bound <= answer.cost) &&
      differ(answer.cost_bound, answer.cost)) {  // a bound that is no number, too
    return at_buffer("the plan costs less than its bound", no_buffer);
  }
  return {};
}

}  // namespace

std::optional<violation> verify_moves(const problem& p, const plan& answer) {
  moves_verifier check{.p = p, .answer = answer, .stays_of = {}, .move_into = {}, .link_between = {}};
  if (auto found = check.shape()) return found;
  for (const auto rule : {&moves_verifier::lives, &moves_verifier::copies, &moves_verifier::uses,
                          &moves_verifier::places, &moves_verifier::links, &moves_verifier::times}) {
    if (auto found = (check.*rule)()) return found;
  }
  return {};
}

}  // namespace berth::plan
