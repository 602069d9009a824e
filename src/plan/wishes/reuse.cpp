#include "plan/wishes/reuse.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/mix.hpp"
#include "plan/policy.hpp"
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

// The arena, or the slab, in which a buffer stays.
struct room {
  index memory = 0;
  bytes reach = 0;  // nothing may end above
};

// A plan whose buffers are taken out and put back at the offset that pays least.
class refiller {
 public:
  refiller(const problem& p, const options& o, plan& answer);

  // Moves each paying buffer to its cheapest offset; returns whether any moved.
  bool move_each(const patience& wait);
  // Takes out a few buffers around a paying pair at a time, until nothing is paid or the wait is over.
  void refill_around_pairs(const patience& wait);

 private:
  struct partner {
    index other = 0;
    double weight = 0;
  };
  struct byte_range {
    bytes lo = 0, hi = 0;
  };
  struct change_of_cost {
    bytes at = 0;  // for a buffer from this offset on
    double by = 0;
  };

  [[nodiscard]] bool may_move(index i) const {
    const buffer& b = p_.buffers[i];
    return !b.offset && !b.alias_group && size_[i] != 0;
  }
  [[nodiscard]] std::uint64_t random(std::uint64_t below) { return mix(++seed_ * 0x9e3779b97f4a7c15U) % below; }

  void index_lifetimes();
  template <class F>
  void for_each_alive_with(index i, std::size_t node, std::size_t first, std::size_t width, F&& f);
  std::span<const index> never_with(index i);
  double cost_of(index i) const;
  bool put_back(index i);
  bool refill(std::vector<index>& out, bool may_stay_equal);
  std::optional<reuse_penalty> paying_pair();
  void choose_around(const reuse_penalty& r, std::vector<index>& out);

  const problem& p_;
  plan& answer_;
  std::vector<bytes> size_, alignment_;
  std::vector<room> rooms_;
  std::vector<index> place_of_;
  std::vector<char> absent_;
  std::vector<std::vector<partner>> partners_;
  std::vector<std::vector<index>> apart_;  // by conflicts and separations
  // Buffers by the begin of their lives, and a binary tree over them with the last end below each node.
  std::vector<index> by_begin_;
  std::vector<interval> hull_;
  std::vector<tick> last_end_;
  std::vector<std::vector<index>> never_with_;  // of the buffers asked for, while there is room
  std::size_t pairs_kept_ = 0;
  std::vector<index> asked_;
  std::vector<byte_range> taken_;
  std::vector<change_of_cost> changes_;
  std::vector<bytes> candidates_;
  std::uint64_t looks_ = 0;  // since the last report
  std::uint64_t seed_ = 0;
};

constexpr std::size_t most_pairs_kept = 16 << 20;  // 64 MiB

refiller::refiller(const problem& p, const options& o, plan& answer)
    : p_{p},
      answer_{answer},
      place_of_(p.buffers.size()),
      absent_(p.buffers.size()),
      partners_(p.buffers.size()),
      apart_(p.buffers.size()),
      never_with_(p.buffers.size()) {
  std::map<std::pair<index, index>, index> places;
  for (index i = 0; i < p.buffers.size(); ++i) {
    const index memory = answer.memory_of.empty() ? 0 : answer.memory_of[i];
    const auto at =
        places.try_emplace({memory, answer.slab_of.empty() ? 0 : answer.slab_of[i]}, static_cast<index>(rooms_.size()));
    if (at.second) rooms_.push_back({memory, room_of(p, o, memory).value_or(0)});
    place_of_[i] = at.first->second;
    size_.push_back(p.footprint(i));
    alignment_.push_back(p.memories.empty() ? p.alignment_of(i)
                                            : std::lcm(p.alignment_of(i), p.memories[memory].alignment));
    room& in = rooms_[place_of_[i]];
    in.reach = std::max(in.reach, answer.offset(i) + size_[i]);
  }
  for (const reuse_penalty& r : p.reuse_penalties) {
    if (place_of_[r.a] != place_of_[r.b] || size_[r.a] == 0 || size_[r.b] == 0) continue;
    partners_[r.a].push_back({r.b, r.weight});
    partners_[r.b].push_back({r.a, r.weight});
  }
  for (const std::span<const pair> all :
       {std::span{p.separations}, p.conflicts ? std::span{*p.conflicts} : std::span<const pair>{}}) {
    for (const pair& s : all) {
      apart_[s.a].push_back(s.b);
      apart_[s.b].push_back(s.a);
    }
  }
  if (!p.conflicts) index_lifetimes();
}

void refiller::index_lifetimes() {
  for (const buffer& b : p_.buffers) {
    hull_.push_back(b.lifetimes.empty() ? b.live : interval{b.lifetimes.front().lower, b.lifetimes.back().upper});
  }
  by_begin_.resize(hull_.size());
  std::iota(by_begin_.begin(), by_begin_.end(), index{0});
  std::ranges::stable_sort(by_begin_, {}, [this](index i) { return hull_[i].lower; });
  const std::size_t leaves = std::bit_ceil(by_begin_.size());
  last_end_.assign(2 * leaves, std::numeric_limits<tick>::min());
  for (std::size_t k = 0; k < by_begin_.size(); ++k) last_end_[leaves + k] = hull_[by_begin_[k]].upper;
  for (std::size_t node = leaves; --node > 0;) {
    last_end_[node] = std::max(last_end_[2 * node], last_end_[2 * node + 1]);
  }
}

// Calls f for each buffer below the node, with `width` leaves from `first` on, that is alive with i.
template <class F>
void refiller::for_each_alive_with(index i, std::size_t node, std::size_t first, std::size_t width, F&& f) {
  ++looks_;
  const bool none =
      first >= by_begin_.size() || last_end_[node] <= hull_[i].lower || hull_[by_begin_[first]].lower >= hull_[i].upper;
  if (none) return;
  if (width == 1) {
    if (live_together(p_.buffers[i], p_.buffers[by_begin_[first]])) f(by_begin_[first]);
    return;
  }
  for_each_alive_with(i, 2 * node, first, width / 2, f);
  for_each_alive_with(i, 2 * node + 1, first + width / 2, width / 2, f);
}

// Returns the buffers of the same place that may share no byte with i, some twice.
std::span<const index> refiller::never_with(index i) {
  if (!never_with_[i].empty()) return never_with_[i];
  asked_.clear();
  const auto add = [&](index j) {
    if (j != i && place_of_[j] == place_of_[i] && size_[j] != 0) asked_.push_back(j);
  };
  std::ranges::for_each(apart_[i], add);
  if (!p_.conflicts) for_each_alive_with(i, 1, 0, last_end_.size() / 2, add);
  pairs_kept_ += asked_.size();
  if (pairs_kept_ > most_pairs_kept) return asked_;
  return never_with_[i] = asked_;
}

double refiller::cost_of(index i) const {
  double cost = 0;
  const bytes at = answer_.offset(i);
  for (const partner& one : partners_[i]) {
    const bytes other = answer_.offset(one.other);
    if (!absent_[one.other] && at < other + size_[one.other] && other < at + size_[i]) cost += one.weight;
  }
  return cost;
}

// Gives buffer i the lowest of the offsets that pay least. Only the end of a block below, or of a partner, can be one.
bool refiller::put_back(index i) {
  const room& in = rooms_[place_of_[i]];
  taken_.clear();
  changes_.clear();
  candidates_.assign(1, 0);
  if (!p_.memories.empty()) {
    for (const auto& [lo, hi] : p_.memories[in.memory].reserved) taken_.push_back({lo, hi});
  }
  for (const index j : never_with(i)) {
    if (!absent_[j]) taken_.push_back({answer_.offset(j), answer_.offset(j) + size_[j]});
  }
  for (const byte_range& r : taken_) candidates_.push_back(align_up(r.hi, alignment_[i]));
  for (const partner& one : partners_[i]) {
    if (absent_[one.other]) continue;
    const bytes lo = answer_.offset(one.other), hi = lo + size_[one.other];
    changes_.push_back({lo < size_[i] ? 0 : lo - size_[i] + 1, one.weight});
    changes_.push_back({hi, -one.weight});
    candidates_.push_back(align_up(hi, alignment_[i]));
  }
  looks_ += taken_.size() + 2 * changes_.size();
  std::ranges::sort(taken_, {}, &byte_range::lo);
  std::ranges::sort(changes_, {}, &change_of_cost::at);
  std::ranges::sort(candidates_);
  std::optional<bytes> best;
  double least = 0, cost = 0;
  bytes below = 0;  // the end of the blocks that begin up to the candidate
  auto next = taken_.begin();
  auto change = changes_.begin();
  for (const bytes at : candidates_) {
    if (size_[i] > in.reach || at > in.reach - size_[i]) break;
    for (; change != changes_.end() && change->at <= at; ++change) cost += change->by;
    for (; next != taken_.end() && next->lo < at + size_[i]; ++next) below = std::max(below, next->hi);
    if (below > at || (best && cost >= least)) continue;
    best = at;
    least = cost;
  }
  if (best) answer_.offsets[i] = *best;
  return best.has_value();
}

// Takes these out and puts them back in this order. Undoes that if one finds no place, or if more is paid.
bool refiller::refill(std::vector<index>& out, bool may_stay_equal) {
  double before = 0, after = 0;
  std::vector<bytes> former;
  for (const index i : out) {
    former.push_back(answer_.offset(i));
    before += cost_of(i);
    absent_[i] = 1;
    looks_ += partners_[i].size();
  }
  bool fits = true;
  for (const index i : out) {
    if (fits && (fits = put_back(i))) after += (absent_[i] = 0, cost_of(i));
  }
  if (fits && (after < before || (may_stay_equal && after <= before))) return after < before;
  for (std::size_t k = 0; k < out.size(); ++k) {
    answer_.offsets[out[k]] = former[k];
    absent_[out[k]] = 0;
  }
  return false;
}

bool refiller::move_each(const patience& wait) {
  bool changed = false;
  std::vector<index> one(1);
  for (index i = 0; i < size_.size() && !wait.was_over(); ++i) {
    if (!partners_[i].empty() && may_move(i) && cost_of(i) > 0) {
      one[0] = i;
      changed |= refill(one, false);
    }
    (void)wait.over(std::exchange(looks_, 0) + partners_[i].size());
  }
  return changed;
}

// Returns one of the pairs that pay, at random.
std::optional<reuse_penalty> refiller::paying_pair() {
  const std::vector<reuse_penalty>& all = p_.reuse_penalties;
  const std::uint64_t first = random(all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    const reuse_penalty& r = all[(first + k) % all.size()];
    ++looks_;
    if (r.weight > 0 && shares(p_, answer_, r)) return r;
  }
  return std::nullopt;
}

void refiller::choose_around(const reuse_penalty& r, std::vector<index>& out) {
  out.clear();
  const auto add = [&](index i) {
    if (may_move(i) && std::ranges::find(out, i) == out.end()) out.push_back(i);
  };
  add(r.a);
  add(r.b);
  const std::uint64_t count = 2 + random(policy::most_refilled - 1);
  for (std::uint64_t turn = 0; turn < 4 * count && out.size() < count; ++turn) {
    const index near = random(2) == 0 ? r.a : r.b;
    if (random(4) == 0) {
      add(partners_[near][random(partners_[near].size())].other);
    } else if (const std::span<const index> others = never_with(near); !others.empty()) {
      add(others[random(others.size())]);
    }
  }
  if (random(2) == 0) {
    std::ranges::stable_sort(out, std::greater{}, [this](index i) { return size_[i]; });
  } else {
    for (std::size_t k = out.size(); k > 1; --k) std::swap(out[k - 1], out[random(k)]);
  }
}

void refiller::refill_around_pairs(const patience& wait) {
  std::vector<index> out;
  while (!wait.over(std::exchange(looks_, 0) + 1)) {
    const auto r = paying_pair();
    if (!r) return;
    choose_around(*r, out);
    (void)refill(out, true);
  }
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

// Returns the looks of an effort. Problems below 300 buffers have fewer places to try, and get less.
std::uint64_t looks_of(effort work, std::size_t buffers) {
  constexpr std::uint64_t enough = 300;
  const policy::looks_budget& of = work == effort::fast     ? policy::fast_reuse
                                   : work == effort::normal ? policy::normal_reuse
                                                            : policy::best_reuse;
  const std::uint64_t share = std::min<std::uint64_t>(buffers, enough);
  return of.base * share * share / (enough * enough) + of.an_item * buffers;
}

}  // namespace

double reuse_penalty_of(const problem& p, const plan& answer) {
  double sum = 0;
  for (const reuse_penalty& r : p.reuse_penalties) sum += shares(p, answer, r) ? r.weight : 0;
  return sum;
}

void lower_reuse_penalty(const problem& p, const options& o, const patience& wait, plan& answer) {
  if (uses(technique::reuse) && reuse_penalty_of(p, answer) > 0) {
    refiller by{p, o, answer};
    const patience few = wait.for_looks(looks_of(o.work, p.buffers.size()));
    for (int rounds = policy::reuse_rounds; rounds > 0 && by.move_each(few); --rounds) continue;
    by.refill_around_pairs(few);
  }
  answer.arena_bytes = arena_of(p, answer);  // a slab may have become shorter
  if (answer.status == status::optimal && answer.arena_bytes > answer.lower_bound_bytes) {
    answer.status = status::feasible;  // by the arena, which gave way
  }
  answer.reuse_penalty = reuse_penalty_of(p, answer);
}

}  // namespace berth::plan
