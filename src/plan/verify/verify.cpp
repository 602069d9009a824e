#include "berth/plan/verify.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "plan/sort_within.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

// A slab of a memory: offsets are counted from its base.
using place = std::pair<index, index>;

class checker {
 public:
  checker(const problem& of, const plan& claimed, const patience& wait) : p{of}, answer{claimed}, wait_{wait} {}

  // The first violation; nothing, too, where the wait ended before the end.
  std::optional<violation> places();
  std::optional<violation> claims() const;

 private:
  place place_of(index i) const {
    return {answer.memory_of.empty() ? 0 : answer.memory_of[i], answer.slab_of.empty() ? 0 : answer.slab_of[i]};
  }
  bytes offset(index i) const { return answer.offsets[i]; }
  bytes end(index i) const { return answer.offsets[i] + p.footprint(i); }
  index count() const { return static_cast<index>(p.buffers.size()); }
  bool one_place() const { return answer.memory_of.empty() && answer.slab_of.empty(); }
  bool same_group(index a, index b) const {
    return p.buffers[a].alias_group && p.buffers[a].alias_group == p.buffers[b].alias_group;
  }
  bool share_bytes(index a, index b) const {
    return place_of(a) == place_of(b) && p.footprint(a) != 0 && p.footprint(b) != 0 && offset(a) < end(b) &&
           offset(b) < end(a);
  }

  // Of all, and then of the buffers [first, last).
  std::optional<violation> counts() const;
  std::optional<violation> shape(index first, index last);
  std::optional<violation> alignment(index first, index last);
  std::optional<violation> pins(index first, index last);
  std::optional<violation> groups(index first, index last);
  std::optional<violation> slabs(index first, index last);
  std::optional<violation> one_by_one();

  std::optional<violation> capacity();
  std::optional<violation> reserved();
  bool look_at_all_alive(std::optional<violation>& found) const;
  struct entry;
  bool make_entries(std::vector<entry>& entries, std::vector<index>& entry_of) const;
  std::optional<violation> lifetimes();
  std::optional<violation> conflicts();
  std::optional<violation> separations();

  const problem& p;
  const plan& answer;
  const patience& wait_;
  std::vector<index> first_of_group_;  // one of its members + 1
  std::map<place, index> highest_;     // of each slab: the buffer that ends highest
  index top_ = 0;                      // the same where there is one
};

violation at(const char* rule, index a, bytes number) {
  return {rule, a, a, number};
}

std::optional<violation> checker::counts() const {
  const std::size_t n = p.buffers.size();
  if (!answer.has_offsets()) return at("the plan has no offsets", 0, 0);
  if (answer.offsets.size() != n) return at("the plan has not one offset a buffer", 0, answer.offsets.size());
  if (!answer.memory_of.empty() && answer.memory_of.size() != n) {
    return at("the plan has not one memory a buffer", 0, answer.memory_of.size());
  }
  if (n > 0 && answer.memory_of.empty() && p.memories.size() > 1) return at("the plan does not say which memory", 0, 0);
  if (!answer.slab_of.empty() && answer.slab_of.size() != n) {
    return at("the plan has not one slab a buffer", 0, answer.slab_of.size());
  }
  return {};
}

std::optional<violation> checker::shape(index first, index last) {
  for (index i = first; i < last; ++i) {
    const auto [memory, slab] = place_of(i);
    const auto& allowed = p.buffers[i].memories;
    if (memory >= std::max<std::size_t>(1, p.memories.size()) ||
        (!allowed.empty() && std::find(allowed.begin(), allowed.end(), memory) == allowed.end())) {
      return at("a buffer is in a memory it may not live in", i, memory);
    }
    if (slab != 0 && !p.max_slab) return at("a buffer is in a second slab of a memory that has one", i, slab);
    if (answer.offsets[i] > max_address) return at("an offset exceeds 2^62 bytes", i, answer.offsets[i]);
  }
  return {};
}

std::optional<violation> checker::alignment(index first, index last) {
  for (index i = first; i < last; ++i) {
    if (!is_aligned(offset(i), p.alignment_of(i))) return at("an offset is not aligned", i, offset(i));
    if (!p.memories.empty() && !is_aligned(offset(i), p.memories[place_of(i).first].alignment)) {
      return at("an offset is not aligned as its memory asks", i, offset(i));
    }
  }
  return {};
}

std::optional<violation> checker::pins(index first, index last) {
  for (index i = first; i < last; ++i) {
    if (p.buffers[i].offset && *p.buffers[i].offset != offset(i)) {
      return at("a pinned buffer is not where its pin is", i, offset(i));
    }
  }
  return {};
}

std::optional<violation> checker::groups(index first, index last) {
  if (first == 0) first_of_group_.clear();
  for (index i = first; i < last; ++i) {
    const auto group = p.buffers[i].alias_group;
    if (!group) continue;
    if (first_of_group_.empty()) first_of_group_.resize(p.buffers.size(), 0);
    if (first_of_group_[*group] == 0) first_of_group_[*group] = i + 1;
    const index other = first_of_group_[*group] - 1;
    if (offset(i) != offset(other) || place_of(i) != place_of(other)) {
      return violation{"two members of an alias group have not one base", i, other, offset(i)};
    }
  }
  return {};
}

// Finds what ends highest, besides.
std::optional<violation> checker::slabs(index first, index last) {
  for (index i = first; i < last; ++i) {
    if (p.max_slab && end(i) > *p.max_slab) return at("a buffer ends beyond the largest slab", i, end(i));
    if (one_place()) {
      if (end(i) > end(top_)) top_ = i;
    } else {
      const auto [it, added] = highest_.try_emplace(place_of(i), i);
      if (!added && end(i) > end(it->second)) it->second = i;
    }
  }
  return {};
}

// Rule by rule, some buffers at a time: they are then read from memory once.
std::optional<violation> checker::one_by_one() {
  constexpr index at_a_time = 1024;
  static constexpr auto rules = {&checker::shape, &checker::alignment, &checker::pins, &checker::groups,
                                 &checker::slabs};
  for (index i = 0; i < count(); i += std::min(at_a_time, count() - i)) {
    if (wait_.over(at_a_time)) return {};
    for (const auto rule : rules) {
      if (!(this->*rule)(i, i + std::min(at_a_time, count() - i))) continue;
      // Of all violations the one of the first rule.
      for (const auto any : rules) {
        if (auto found = (this->*any)(0, count())) return found;
      }
    }
  }
  if (one_place() && count() > 0) highest_.emplace(place{0, 0}, top_);
  return {};
}

std::optional<violation> checker::capacity() {
  std::map<index, bytes> used;  // by memory, over its slabs
  for (const auto& [where, i] : highest_) {
    const auto limit = p.memories.empty() ? p.capacity : p.memories[where.first].capacity;
    bytes& sum = used[where.first];
    sum = checked_add(sum, end(i)).value_or(max_bytes);
    if (limit && sum > *limit) return at("a buffer ends beyond the capacity", i, *limit);
  }
  return {};
}

std::optional<violation> checker::reserved() {
  for (index m = 0; m < p.memories.size(); ++m) {
    auto ranges = p.memories[m].reserved;
    if (ranges.empty()) continue;
    std::sort(ranges.begin(), ranges.end());
    std::size_t kept = 0;  // merge, so that both ends ascend
    for (const auto& range : ranges) {
      if (kept > 0 && range.first <= ranges[kept - 1].second) {
        ranges[kept - 1].second = std::max(ranges[kept - 1].second, range.second);
      } else {
        ranges[kept++] = range;
      }
    }
    ranges.resize(kept);
    if (wait_.over(count())) return {};
    for (index i = 0; i < count(); ++i) {
      if (place_of(i).first != m || p.footprint(i) == 0) continue;
      const auto next = std::partition_point(ranges.begin(), ranges.end(),
                                             [&](const auto& range) { return range.second <= offset(i); });
      if (next != ranges.end() && next->first < end(i)) {
        return at("a buffer lies in a reserved range", i, offset(i));
      }
    }
  }
  return {};
}

// A set of small integers with the next and the previous member of any, in O(log n / log 64).
class ordered_bits {
 public:
  explicit ordered_bits(std::size_t n) {
    do {
      n = n / 64 + 1;
      levels_.emplace_back(n, 0);
    } while (n > 1);
  }
  void insert(std::size_t i) {
    for (auto& level : levels_) {
      level[i / 64] |= std::uint64_t{1} << i % 64;
      i /= 64;
    }
  }
  void erase(std::size_t i) {
    for (auto& level : levels_) {
      level[i / 64] &= ~(std::uint64_t{1} << i % 64);
      if (level[i / 64] != 0) return;
      i /= 64;
    }
  }
  // The least member above i; nothing where there is none.
  std::optional<std::size_t> next(std::size_t i) const {
    for (std::size_t up = 0; up < levels_.size(); ++up) {
      const std::uint64_t above = i % 64 == 63 ? 0 : levels_[up][i / 64] >> (i % 64 + 1);
      if (above != 0) {
        i += 1 + static_cast<std::size_t>(std::countr_zero(above));
        for (; up > 0; --up) i = i * 64 + static_cast<std::size_t>(std::countr_zero(levels_[up - 1][i]));
        return i;
      }
      i /= 64;
    }
    return {};
  }
  // The greatest member below i; nothing where there is none.
  std::optional<std::size_t> previous(std::size_t i) const {
    for (std::size_t up = 0; up < levels_.size(); ++up) {
      const std::uint64_t below = i % 64 == 0 ? 0 : levels_[up][i / 64] << (64 - i % 64);
      if (below != 0) {
        i -= 1 + static_cast<std::size_t>(std::countl_zero(below));
        for (; up > 0; --up) i = i * 64 + 63 - static_cast<std::size_t>(std::countl_zero(levels_[up - 1][i]));
        return i;
      }
      i /= 64;
    }
    return {};
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

struct event {
  std::uint64_t at;  // the tick, shifted so that unsigned order is the order of time
  index buffer;
  bool start;  // at one tick, ends come before starts
};

// Sorted by time; by counting where the ticks are as dense as node indices usually are.
std::vector<event> events_in_order(const problem& p, const patience& wait) {
  const auto shifted = [](tick t) { return static_cast<std::uint64_t>(t) ^ (std::uint64_t{1} << 63); };
  std::vector<event> events;
  events.reserve(2 * p.buffers.size());
  std::uint64_t first = ~std::uint64_t{0}, last = 0;
  const auto add = [&](index i, const interval& live) {
    const event start{shifted(live.lower), i, true}, stop{shifted(live.upper), i, false};
    first = std::min(first, start.at);
    last = std::max(last, stop.at);
    events.push_back(start);
    events.push_back(stop);
  };
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (p.footprint(i) == 0) continue;
    const buffer& b = p.buffers[i];
    if (b.lifetimes.empty()) add(i, b.live);
    for (const interval& live : b.lifetimes) add(i, live);
  }
  if (events.empty()) return events;
  // Unsigned: the span of the times may exceed 63 bits.
  if (static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first) < 2 * events.size()) {
    const auto key = [first](const event& e) { return (e.at - first) * 2 + (e.start ? 1 : 0); };
    std::vector<std::uint32_t> begin((last - first) * 2 + 3, 0);
    for (const event& e : events) ++begin[key(e) + 1];
    for (std::size_t k = 1; k < begin.size(); ++k) begin[k] += begin[k - 1];
    std::vector<event> sorted(events.size());
    for (const event& e : events) sorted[begin[key(e)]++] = e;
    return sorted;
  }
  const auto earlier = [](const event& x, const event& y) { return x.at != y.at ? x.at < y.at : x.start < y.start; };
  if (!sort_within(events.begin(), events.end(), earlier, wait)) events.clear();
  return events;
}

// Looks at all that is alive whenever a buffer comes to life: without an order of the offsets, and faster than any as
// long as few are alive. False: there is more than one lifetime, base or place, or too much was alive.
bool checker::look_at_all_alive(std::optional<violation>& found) const {
  constexpr std::size_t most_looks_per_buffer = 32, few_blocks = 1000;
  if (!answer.memory_of.empty() || !answer.slab_of.empty()) return false;
  struct block {
    tick lower;
    tick upper;
    bytes lo;
    bytes hi;
    index buffer;
  };
  std::vector<block> blocks;
  blocks.reserve(p.buffers.size());
  bool in_order = true, stacked = true;
  double alive_ticks = 0;
  tick first = std::numeric_limits<tick>::max(), last = std::numeric_limits<tick>::min();
  for (index i = 0; i < count(); ++i) {
    if (i % 4096 == 0 && wait_.over()) return true;
    const buffer& b = p.buffers[i];
    if (!b.lifetimes.empty() || b.alias_group) return false;
    const bytes size = p.footprint(i);
    if (size == 0) continue;
    in_order = in_order && (blocks.empty() || blocks.back().lower <= b.live.lower);
    stacked = stacked && (blocks.empty() || blocks.back().hi <= offset(i));
    first = std::min(first, b.live.lower);
    last = std::max(last, b.live.upper);
    alive_ticks += static_cast<double>(b.live.upper) - static_cast<double>(b.live.lower);
    blocks.push_back({b.live.lower, b.live.upper, offset(i), offset(i) + size, i});
  }
  if (stacked) return true;  // no two share a byte
  if (!in_order) {
    // Not worth sorting where many are alive.
    const double ticks = static_cast<double>(last) - static_cast<double>(first);
    if (blocks.size() > few_blocks && alive_ticks > most_looks_per_buffer * ticks) return false;
    const auto earlier = [](const block& x, const block& y) {
      return x.lower != y.lower ? x.lower < y.lower : x.buffer < y.buffer;
    };
    if (!sort_within(blocks.begin(), blocks.end(), earlier, wait_)) return true;
  }
  std::vector<block> alive;
  std::size_t looks = 0, lives = 0;
  for (const block& born : blocks) {
    if (lives % 1024 == 0 && wait_.over(1024 * 8)) return true;
    for (std::size_t k = 0; k < alive.size();) {
      const block& other = alive[k];
      if (other.upper <= born.lower) {
        alive[k] = alive.back();
        alive.pop_back();
        continue;
      }
      if (born.lo < other.hi && other.lo < born.hi) {
        found = violation{"two buffers overlap in time and place", born.buffer, other.buffer, born.lo};
        return true;
      }
      ++k;
    }
    alive.push_back(born);
    looks += alive.size();
    ++lives;
    if (looks > most_looks_per_buffer * lives + 1024) return false;
  }
  return true;
}

// A base that takes bytes: a buffer's, or that of an alias group, which is as long as its longest member alive.
struct checker::entry {
  std::uint64_t where = 0;  // memory and slab
  bytes lo = 0;
  bytes hi = 0;
  index longest = 0;  // the buffer that reaches to hi
};

// In the order of memory, slab and offset; entry_of: by buffer. Members of an alias group share the first one's. False:
// the wait is over.
bool checker::make_entries(std::vector<entry>& entries, std::vector<index>& entry_of) const {
  entries.reserve(p.buffers.size());
  for (index i = 0; i < count(); ++i) {
    const auto [memory, slab] = place_of(i);
    if (p.footprint(i) != 0) entries.push_back({std::uint64_t{memory} << 32 | slab, offset(i), end(i), i});
  }
  const auto below = [](const entry& a, const entry& b) {
    if (a.where != b.where) return a.where < b.where;
    return a.lo != b.lo ? a.lo < b.lo : a.longest < b.longest;
  };
  if (!sort_within(entries.begin(), entries.end(), below, wait_)) return false;
  entry_of.assign(p.buffers.size(), 0);
  for (index k = 0; k < entries.size(); ++k) entry_of[entries[k].longest] = k;
  std::vector<index> entry_of_group;
  for (index i = 0; i < count(); ++i) {
    const auto group = p.buffers[i].alias_group;
    if (!group || p.footprint(i) == 0) continue;
    if (entry_of_group.empty()) entry_of_group.resize(p.buffers.size(), count());
    if (entry_of_group[*group] == count()) entry_of_group[*group] = entry_of[i];
    entry_of[i] = entry_of_group[*group];
  }
  return true;
}

// A sweep over time that keeps the entries that are alive. Their blocks are disjoint as long as no violation was found,
// so that a new one can only collide with its two neighbours.
std::optional<violation> checker::lifetimes() {
  if (std::optional<violation> found; look_at_all_alive(found)) return found;
  std::vector<entry> entries;
  std::vector<index> entry_of;
  if (!make_entries(entries, entry_of)) return {};
  const bool any_group = !first_of_group_.empty();
  ordered_bits live(entries.size());
  std::map<index, std::multiset<std::pair<bytes, index>>> live_members;  // by entry of a group
  const auto collision = [&](std::size_t lower, std::size_t upper, index culprit) -> std::optional<violation> {
    const entry &a = entries[lower], &b = entries[upper];
    if (a.where != b.where || a.lo >= b.hi || b.lo >= a.hi) return {};
    const index other = a.longest == culprit ? b.longest : a.longest;
    return violation{"two buffers overlap in time and place", culprit, other, offset(culprit)};
  };
  std::uint64_t seen = 0;
  for (const event& e : events_in_order(p, wait_)) {
    if (++seen % 1024 == 0 && wait_.over(1024 * 4)) return {};
    const index at = entry_of[e.buffer];
    if (any_group && p.buffers[e.buffer].alias_group) {
      auto& members = live_members[at];
      const std::pair<bytes, index> member{p.footprint(e.buffer), e.buffer};
      if (e.start) {
        members.insert(member);
      } else {
        members.erase(members.find(member));
      }
      if (!members.empty()) {
        entries[at].longest = members.rbegin()->second;
        entries[at].hi = entries[at].lo + members.rbegin()->first;
      }
      if (!e.start && !members.empty()) continue;
    }
    if (!e.start) {
      live.erase(at);
      continue;
    }
    live.insert(at);
    if (const auto below = live.previous(at)) {
      if (auto found = collision(*below, at, e.buffer)) return found;
    }
    if (const auto above = live.next(at)) {
      if (auto found = collision(at, *above, e.buffer)) return found;
    }
  }
  return {};
}

std::optional<violation> checker::conflicts() {
  if (!p.conflicts) return lifetimes();
  std::uint64_t seen = 0;
  for (const pair& c : *p.conflicts) {
    if (++seen % 1024 == 0 && wait_.over(1024 * 4)) return {};
    if (!same_group(c.a, c.b) && share_bytes(c.a, c.b)) {
      return violation{"two buffers that conflict share bytes", c.a, c.b, offset(c.a)};
    }
  }
  return {};
}

std::optional<violation> checker::separations() {
  for (const pair& s : p.separations) {
    if (share_bytes(s.a, s.b)) return violation{"two separated buffers share bytes", s.a, s.b, offset(s.a)};
  }
  return {};
}

std::optional<violation> checker::claims() const {
  bytes needed = 0;
  for (const auto& [where, i] : highest_) needed = checked_add(needed, end(i)).value_or(max_bytes);
  if (needed != answer.arena_bytes) return at("the arena is not what the plan says", 0, needed);
  if (answer.lower_bound_bytes > needed) {
    return at("the plan's lower bound is above its arena", 0, answer.lower_bound_bytes);
  }
  if (answer.optimal() && answer.lower_bound_bytes < needed) {
    return at("the plan says it is optimal, and its lower bound is below its arena", 0, answer.lower_bound_bytes);
  }
  double penalty = 0;
  for (const reuse_penalty& r : p.reuse_penalties) {
    if (share_bytes(r.a, r.b)) penalty += r.weight;
  }
  // The plan may have added in another order.
  if (!(std::abs(penalty - answer.reuse_penalty) <= 1e-9 * (1 + penalty))) {
    return at("the reuse penalty is not what the plan says", 0, 0);
  }
  return {};
}

std::optional<violation> checker::places() {
  if (auto found = counts()) return found;
  for (const auto rule :
       {&checker::one_by_one, &checker::capacity, &checker::reserved, &checker::conflicts, &checker::separations}) {
    if (auto found = (this->*rule)(); found || wait_.was_over()) return found;
  }
  return {};
}

}  // namespace

std::optional<violation> verify_places(const problem& p, const plan& answer) {
  const patience endless;
  return checker{p, answer, endless}.places();
}

std::optional<violation> verify(const problem& p, const plan& answer) {
  return verify_within(p, answer, {});
}

std::optional<violation> verify_within(const problem& p, const plan& answer, const patience& wait) {
  checker check{p, answer, wait};
  if (auto found = check.places(); found || wait.was_over()) return found;
  return check.claims();
}

}  // namespace berth::plan
