// Random problems for property tests. Call only from inside a RapidCheck property.
#pragma once

#include <rapidcheck.h>

#include <algorithm>

#include "berth/plan/problem.hpp"

namespace berth::plan::generate {

struct shape {
  int most_buffers = 8;
  int most_memories = 1;  // 1: `memories` stays empty
  bytes most_size = 12;
  tick most_ticks = 10;
  bool explicit_conflicts = true;
  bool slabs = false;
  bool pins = true;
  bool penalties = true;
};

inline int upto(int most) {
  return *rc::gen::inRange(0, most + 1);
}
inline bool one_in(int n) {
  return *rc::gen::inRange(0, n) == 0;
}

inline interval lifetime(tick first, tick last) {
  const tick lower = *rc::gen::inRange<tick>(first, last);
  return {lower, *rc::gen::inRange<tick>(lower + 1, last + 1)};
}

inline bytes alignment() {
  return *rc::gen::element<bytes>(1, 1, 1, 2, 3, 4);
}

inline buffer random_buffer(const shape& s) {
  buffer b;
  b.size = *rc::gen::inRange<bytes>(one_in(8) ? 0 : 1, s.most_size + 1);
  b.live = lifetime(0, s.most_ticks);
  if (one_in(5)) {
    b.lifetimes = {lifetime(0, s.most_ticks / 2), lifetime(s.most_ticks / 2, s.most_ticks)};
  }
  if (one_in(4)) b.alignment = alignment();
  if (one_in(6)) b.granularity = alignment();
  if (one_in(6)) b.tail_pad = upto(2) - 1;
  if (one_in(6)) b.hint = *rc::gen::inRange<bytes>(0, 2 * s.most_size);
  return b;
}

// Returns a problem that passes validate(), with every constraint that `s` allows. Returns nothing if the draw
// contradicts itself (groups whose members share no memory).
inline std::optional<problem> random_problem(const shape& s) {
  problem p;
  const int n = upto(s.most_buffers);
  if (one_in(3)) p.alignment = alignment();
  if (one_in(4)) p.granularity = alignment();
  if (one_in(6)) p.tail_pad = 1;
  const int memories = s.most_memories > 1 ? 1 + upto(s.most_memories - 1) : 0;
  for (int m = 0; m < memories; ++m) {
    memory one;
    if (one_in(2)) one.capacity = *rc::gen::inRange<bytes>(0, 3 * s.most_size);
    one.alignment = alignment();
    for (int k = one_in(4) ? 1 + upto(1) : 0; k > 0; --k) {  // in any order, and they may overlap
      const bytes lo = *rc::gen::inRange<bytes>(0, s.most_size);
      one.reserved.push_back({lo, lo + *rc::gen::inRange<bytes>(1, 4)});
    }
    if (one_in(2)) one.cost = upto(3);
    p.memories.push_back(one);
  }
  if (memories == 0 && one_in(3)) p.capacity = *rc::gen::inRange<bytes>(0, 4 * s.most_size);
  if (s.slabs) p.max_slab = *rc::gen::inRange<bytes>(1, 2 * s.most_size);
  for (int i = 0; i < n; ++i) p.add(random_buffer(s));
  if (n >= 2 && one_in(3)) {
    for (buffer& b : p.buffers) {
      if (one_in(3)) b.alias_group = upto(1);
    }
  }
  for (buffer& b : p.buffers) {
    if (memories == 0 || one_in(2)) continue;
    for (index m = 0; m < p.memories.size(); ++m) {
      if (one_in(2)) b.memories.push_back(m);
    }
    if (one_in(2)) std::reverse(b.memories.begin(), b.memories.end());
  }
  if (s.pins) {
    for (buffer& b : p.buffers) {
      if (!one_in(8)) continue;
      b.offset = *rc::gen::inRange<bytes>(0, 2 * s.most_size);
      if (!validate(p)) b.offset.reset();
    }
  }
  const auto two = [&] {
    const index a = static_cast<index>(upto(n - 1));
    return pair{a, (a + 1 + static_cast<index>(upto(n - 2))) % static_cast<index>(n)};
  };
  if (n >= 2) {
    if (s.explicit_conflicts && one_in(5)) {
      p.conflicts.emplace();
      for (int k = upto(2 * n); k > 0; --k) p.conflicts->push_back(two());
    }
    for (int k = upto(3); k > 0 && one_in(2); --k) {
      p.separations.push_back(two());
      if (!validate(p)) p.separations.pop_back();
    }
    for (int k = s.penalties ? upto(3) : 0; k > 0; --k) {
      const pair of = two();
      p.reuse_penalties.push_back({of.a, of.b, static_cast<double>(1 + upto(2))});
    }
  }
  if (!validate(p)) return {};
  return p;
}

}  // namespace berth::plan::generate
