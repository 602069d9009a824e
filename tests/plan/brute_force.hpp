// The oracle of the planner's tests: pairwise, exhaustive and slow on purpose. Shares nothing with src/plan.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan::brute_force {

inline std::vector<interval> lifetimes(const buffer& b) {
  return b.lifetimes.empty() ? std::vector<interval>{b.live} : b.lifetimes;
}

inline bool in_one_group(const problem& p, index a, index b) {
  return p.buffers[a].alias_group && p.buffers[b].alias_group && *p.buffers[a].alias_group == *p.buffers[b].alias_group;
}

// Returns whether a and b may not share bytes of one memory.
inline bool exclude_each_other(const problem& p, index a, index b) {
  for (const pair& s : p.separations) {
    if ((s.a == a && s.b == b) || (s.a == b && s.b == a)) return true;
  }
  if (in_one_group(p, a, b)) return false;
  if (p.conflicts) {
    for (const pair& c : *p.conflicts) {
      if ((c.a == a && c.b == b) || (c.a == b && c.b == a)) return true;
    }
    return false;
  }
  for (const interval& x : lifetimes(p.buffers[a])) {
    for (const interval& y : lifetimes(p.buffers[b])) {
      if (x.lower < y.upper && y.lower < x.upper) return true;
    }
  }
  return false;
}

struct spot {
  index memory = 0;
  index slab = 0;
  bytes offset = 0;
};

inline bool share_bytes(const problem& p, index a, const spot& at, index b, const spot& bt) {
  if (at.memory != bt.memory || at.slab != bt.slab) return false;
  bytes common = 0;
  for (bytes x = at.offset; x < at.offset + p.footprint(a); ++x) {
    if (x >= bt.offset && x < bt.offset + p.footprint(b)) ++common;
  }
  return common != 0;
}

// Every rule that concerns one buffer alone.
inline bool may_lie(const problem& p, index i, const spot& at) {
  const buffer& b = p.buffers[i];
  const bytes end = at.offset + p.footprint(i);
  if (at.offset % (b.alignment != 0 ? b.alignment : p.alignment) != 0) return false;
  if (b.offset && *b.offset != at.offset) return false;
  if (p.max_slab && end > *p.max_slab) return false;
  if (!p.max_slab && at.slab != 0) return false;
  if (p.memories.empty()) return at.memory == 0 && (!p.capacity || end <= *p.capacity);
  if (at.memory >= p.memories.size()) return false;
  const memory& m = p.memories[at.memory];
  if (!b.memories.empty() && std::count(b.memories.begin(), b.memories.end(), at.memory) == 0) return false;
  if (at.offset % m.alignment != 0 || (m.capacity && end > *m.capacity)) return false;
  for (const auto& [lo, hi] : m.reserved) {
    for (bytes x = at.offset; x < end; ++x) {
      if (x >= lo && x < hi) return false;
    }
  }
  return true;
}

// Every rule that concerns a and b together.
inline bool may_lie_together(const problem& p, index a, const spot& at, index b, const spot& bt) {
  if (in_one_group(p, a, b) && (at.memory != bt.memory || at.slab != bt.slab || at.offset != bt.offset)) return false;
  return !exclude_each_other(p, a, b) || !share_bytes(p, a, at, b, bt);
}

inline bytes arena(const problem& p, const std::vector<spot>& spots) {
  std::map<std::pair<index, index>, bytes> top;
  for (index i = 0; i < spots.size(); ++i) {
    bytes& t = top[{spots[i].memory, spots[i].slab}];
    t = std::max(t, spots[i].offset + p.footprint(i));
  }
  bytes sum = 0;
  for (const auto& [where, t] : top) sum += t;
  return sum;
}

inline bool capacities_hold(const problem& p, const std::vector<spot>& spots) {
  for (index m = 0; m < std::max<std::size_t>(1, p.memories.size()); ++m) {
    std::map<index, bytes> top;
    for (index i = 0; i < spots.size(); ++i) {
      if (spots[i].memory == m) top[spots[i].slab] = std::max(top[spots[i].slab], spots[i].offset + p.footprint(i));
    }
    bytes sum = 0;
    for (const auto& [slab, t] : top) sum += t;
    const auto capacity = p.memories.empty() ? p.capacity : p.memories[m].capacity;
    if (capacity && sum > *capacity) return false;
  }
  return true;
}

inline std::vector<spot> spots_of(const problem& p, const plan& answer) {
  std::vector<spot> spots(p.buffers.size());
  for (index i = 0; i < spots.size(); ++i) {
    spots[i] = {answer.memory_of.empty() ? 0 : answer.memory_of[i], answer.slab_of.empty() ? 0 : answer.slab_of[i],
                answer.offsets[i]};
  }
  return spots;
}

inline bool allowed(const problem& p, const std::vector<spot>& spots) {
  for (index i = 0; i < spots.size(); ++i) {
    if (!may_lie(p, i, spots[i])) return false;
    for (index j = 0; j < i; ++j) {
      if (!may_lie_together(p, i, spots[i], j, spots[j])) return false;
    }
  }
  return capacities_hold(p, spots);
}

// Returns whether the plan keeps every rule of the problem and states its true arena.
inline bool accepts(const problem& p, const plan& answer) {
  if (answer.offsets.size() != p.buffers.size()) return false;
  const auto spots = spots_of(p, answer);
  return allowed(p, spots) && arena(p, spots) == answer.arena_bytes;
}

// Returns a limit that no offset of some smallest layout exceeds. With the least sum of offsets every buffer lies at 0
// or on another one, a pin or a reserved range, up to its alignment.
inline bytes reach(const problem& p) {
  bytes start = 0, height = 0, of_memories = 1;
  for (const memory& m : p.memories) {
    of_memories = std::lcm(of_memories, m.alignment);
    for (const auto& [lo, hi] : m.reserved) start = std::max(start, hi);
  }
  for (index i = 0; i < p.buffers.size(); ++i) {
    bytes alignment = std::lcm(of_memories, p.alignment_of(i));
    for (index j = 0; j < p.buffers.size(); ++j) {
      if (in_one_group(p, i, j)) alignment = std::lcm(alignment, p.alignment_of(j));
    }
    start = std::max(start, p.buffers[i].offset.value_or(0));
    height += p.footprint(i) + alignment - 1;
  }
  return start + height;
}

// Calls `visit` with every allowed layout within reach(). For a handful of buffers.
inline void for_each_layout(const problem& p, const std::function<void(const std::vector<spot>&)>& visit) {
  std::vector<spot> spots;
  const bytes limit = reach(p);
  const index memories = static_cast<index>(std::max<std::size_t>(1, p.memories.size()));
  const std::function<void()> descend = [&] {
    const auto i = static_cast<index>(spots.size());
    if (i == p.buffers.size()) {
      if (capacities_hold(p, spots)) visit(spots);
      return;
    }
    const index slabs = p.max_slab ? static_cast<index>(p.buffers.size()) : 1;
    for (index m = 0; m < memories; ++m) {
      for (index slab = 0; slab < slabs; ++slab) {
        for (bytes offset = 0; offset <= limit; ++offset) {
          const spot at{m, slab, offset};
          if (!may_lie(p, i, at)) continue;
          bool fits = true;
          for (index j = 0; j < i && fits; ++j) fits = may_lie_together(p, i, at, j, spots[j]);
          if (!fits) continue;
          spots.push_back(at);
          descend();
          spots.pop_back();
        }
      }
    }
  };
  descend();
}

// The smallest arena of any layout; nothing where no layout is allowed.
inline std::optional<bytes> smallest_arena(const problem& p) {
  std::optional<bytes> best;
  for_each_layout(p, [&](const std::vector<spot>& spots) {
    const bytes a = arena(p, spots);
    if (!best || a < *best) best = a;
  });
  return best;
}

inline double penalty(const problem& p, const std::vector<spot>& spots) {
  double sum = 0;
  for (const reuse_penalty& r : p.reuse_penalties) {
    if (share_bytes(p, r.a, spots[r.a], r.b, spots[r.b])) sum += r.weight;
  }
  return sum;
}

}  // namespace berth::plan::brute_force
