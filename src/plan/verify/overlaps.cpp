#include "plan/verify/overlaps.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "plan/sort_within.hpp"

namespace berth::plan {
namespace {

// A set of small integers that finds the neighbours of any, in O(log n / log 64).
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
  // Returns the least member above i; nothing if there is none.
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
  // Returns the greatest member below i; nothing if there is none.
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

struct life_event {
  std::uint64_t at;  // the tick, shifted so that unsigned order is the order of time
  index buffer;
  bool start;  // at one tick, ends come before starts
};

// Returns the events by time; counts if the ticks are as dense as node indices usually are.
std::vector<life_event> events_in_order(const problem& p, const patience& wait) {
  const auto shifted = [](tick t) { return static_cast<std::uint64_t>(t) ^ (std::uint64_t{1} << 63); };
  std::vector<life_event> events;
  events.reserve(2 * p.buffers.size());
  std::uint64_t first = ~std::uint64_t{0}, last = 0;
  const auto add = [&](index i, const interval& live) {
    const life_event start{shifted(live.lower), i, true}, stop{shifted(live.upper), i, false};
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
    const auto key = [first](const life_event& e) { return (e.at - first) * 2 + (e.start ? 1 : 0); };
    std::vector<std::uint32_t> begin((last - first) * 2 + 3, 0);
    for (const life_event& e : events) ++begin[key(e) + 1];
    for (std::size_t k = 1; k < begin.size(); ++k) begin[k] += begin[k - 1];
    std::vector<life_event> sorted(events.size());
    for (const life_event& e : events) sorted[begin[key(e)]++] = e;
    return sorted;
  }
  const auto earlier = [](const life_event& x, const life_event& y) {
    return x.at != y.at ? x.at < y.at : x.start < y.start;
  };
  if (!sort_within(events.begin(), events.end(), earlier, wait)) events.clear();
  return events;
}

struct living_block {
  tick lower;
  tick upper;
  bytes lo;
  bytes hi;
  index buffer;
};

// Tells whether buffers can be checked by their births, while few are alive.
enum class births : std::uint8_t { can_be, no_need, cannot_be };

constexpr std::size_t most_looks_per_buffer = 32;

// Lists the blocks that take bytes, by birth. Returns no_need if no two share a byte, or the wait is over. Returns
// cannot_be if there is more than one lifetime, base or place, or if too many are alive.
births blocks_by_birth(const problem& p, const plan& answer, const patience& wait, std::vector<living_block>& blocks) {
  constexpr std::size_t few_blocks = 1000;
  if (!answer.memory_of.empty() || !answer.slab_of.empty()) return births::cannot_be;
  blocks.reserve(p.buffers.size());
  bool in_order = true, stacked = true;
  double alive_ticks = 0;
  tick first = std::numeric_limits<tick>::max(), last = std::numeric_limits<tick>::min();
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (i % 4096 == 0 && wait.over()) return births::no_need;
    const buffer& b = p.buffers[i];
    if (!b.lifetimes.empty() || b.alias_group) return births::cannot_be;
    const bytes size = p.footprint(i);
    if (size == 0) continue;
    in_order = in_order && (blocks.empty() || blocks.back().lower <= b.live.lower);
    stacked = stacked && (blocks.empty() || blocks.back().hi <= answer.offsets[i]);
    first = std::min(first, b.live.lower);
    last = std::max(last, b.live.upper);
    alive_ticks += static_cast<double>(b.live.upper) - static_cast<double>(b.live.lower);
    blocks.push_back({b.live.lower, b.live.upper, answer.offsets[i], answer.offsets[i] + size, i});
  }
  if (stacked) return births::no_need;
  if (in_order) return births::can_be;
  // Not worth sorting where many are alive.
  const double ticks = static_cast<double>(last) - static_cast<double>(first);
  if (blocks.size() > few_blocks && alive_ticks > most_looks_per_buffer * ticks) return births::cannot_be;
  const auto earlier = [](const living_block& x, const living_block& y) {
    return x.lower != y.lower ? x.lower < y.lower : x.buffer < y.buffer;
  };
  return sort_within(blocks.begin(), blocks.end(), earlier, wait) ? births::can_be : births::no_need;
}

// Checks all live blocks whenever a buffer is born. Needs no order of the offsets, and is faster than any while few are
// alive. False: too many were alive.
bool look_at_all_alive(const std::vector<living_block>& blocks, const patience& wait, std::optional<violation>& found) {
  std::vector<living_block> alive;
  std::size_t looks = 0, lives = 0;
  for (const living_block& born : blocks) {
    if (lives % 1024 == 0 && wait.over(1024 * 8)) return true;
    for (std::size_t k = 0; k < alive.size();) {
      const living_block& other = alive[k];
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
struct base_entry {
  std::uint64_t where = 0;  // memory and slab
  bytes lo = 0;
  bytes hi = 0;
  index longest = 0;  // the buffer that reaches to hi
};

// Makes entries in the order of memory, slab and offset; entry_of: by buffer. Members of an alias group share the first
// one's. False: the wait is over.
bool make_entries(const problem& p, const plan& answer, const patience& wait, std::vector<base_entry>& entries,
                  std::vector<index>& entry_of) {
  const auto count = static_cast<index>(p.buffers.size());
  entries.reserve(p.buffers.size());
  for (index i = 0; i < count; ++i) {
    if (p.footprint(i) == 0) continue;
    const std::uint64_t memory = answer.memory_of.empty() ? 0 : answer.memory_of[i];
    const std::uint64_t slab = answer.slab_of.empty() ? 0 : answer.slab_of[i];
    entries.push_back({memory << 32 | slab, answer.offsets[i], answer.offsets[i] + p.footprint(i), i});
  }
  const auto below = [](const base_entry& a, const base_entry& b) {
    if (a.where != b.where) return a.where < b.where;
    return a.lo != b.lo ? a.lo < b.lo : a.longest < b.longest;
  };
  if (!sort_within(entries.begin(), entries.end(), below, wait)) return false;
  entry_of.assign(p.buffers.size(), 0);
  for (index k = 0; k < entries.size(); ++k) entry_of[entries[k].longest] = k;
  std::vector<index> entry_of_group;
  for (index i = 0; i < count; ++i) {
    const auto group = p.buffers[i].alias_group;
    if (!group || p.footprint(i) == 0) continue;
    if (entry_of_group.empty()) entry_of_group.resize(p.buffers.size(), count);
    if (entry_of_group[*group] == count) entry_of_group[*group] = entry_of[i];
    entry_of[i] = entry_of_group[*group];
  }
  return true;
}

// Sweeps over time and keeps the live entries. Their blocks are disjoint while no violation was found, so that a new
// one can only collide with its two neighbours.
std::optional<violation> sweep_over_time(const problem& p, const plan& answer, const patience& wait) {
  std::vector<base_entry> entries;
  std::vector<index> entry_of;
  if (!make_entries(p, answer, wait, entries, entry_of)) return {};
  const bool any_group =
      std::any_of(p.buffers.begin(), p.buffers.end(), [](const buffer& b) { return b.alias_group.has_value(); });
  ordered_bits live(entries.size());
  std::map<index, std::multiset<std::pair<bytes, index>>> live_members;  // by base_entry of a group
  const auto collision = [&](std::size_t lower, std::size_t upper, index culprit) -> std::optional<violation> {
    const base_entry &a = entries[lower], &b = entries[upper];
    if (a.where != b.where || a.lo >= b.hi || b.lo >= a.hi) return {};
    const index other = a.longest == culprit ? b.longest : a.longest;
    return violation{"two buffers overlap in time and place", culprit, other, answer.offsets[culprit]};
  };
  std::uint64_t seen = 0;
  for (const life_event& e : events_in_order(p, wait)) {
    if (++seen % 1024 == 0 && wait.over(1024 * 4)) return {};
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

}  // namespace

std::optional<violation> overlap_in_time(const problem& p, const plan& answer, const patience& wait) {
  std::vector<living_block> blocks;
  const births how = blocks_by_birth(p, answer, wait, blocks);
  if (how == births::no_need) return {};
  std::optional<violation> found;
  if (how == births::can_be && look_at_all_alive(blocks, wait, found)) return found;
  return sweep_over_time(p, answer, wait);
}

}  // namespace berth::plan
