#include "berth/plan/bound.hpp"

#include <algorithm>

#include "plan/bounds.hpp"

namespace berth::plan {

units section_bound(const instance& in) {
  std::vector<units> change(in.sections + std::size_t{1}, 0);
  for (std::uint32_t i = 0; i < in.own_items; ++i) {
    for (const section_range& r : in.ranges_of(in.items[i])) {
      change[r.first] += r.height;
      change[r.last] -= r.height;
    }
  }
  units best = 0;
  units live = 0;
  for (const units c : change) best = std::max(best, live += c);
  return best;
}

namespace {

// The least arena that holds `stacked` units above each other: what is reserved below the top is lost.
units with_reserved(const instance& in, units stacked) {
  std::vector<std::pair<units, units>> reserved;
  for (std::uint32_t i = in.own_items; i < in.items.size(); ++i) {
    reserved.emplace_back(in.items[i].pin, in.items[i].pin + in.items[i].size);
  }
  std::sort(reserved.begin(), reserved.end());
  units done = 0;
  for (auto [lo, hi] : reserved) {
    lo = std::max(lo, done);
    if (lo >= stacked) break;
    if (hi > lo) stacked += hi - lo;
    done = std::max(done, hi);
  }
  return stacked;
}

}  // namespace

units arena_bound(const instance& in) {
  units stacked = section_bound(in);
  units pinned = 0;
  for (std::uint32_t i = 0; i < in.own_items; ++i) {
    const item& it = in.items[i];
    stacked = std::max(stacked, it.size);
    if (it.pin != no_offset) pinned = std::max(pinned, it.pin + it.size);
    for (const link& l : in.links_of(it)) {
      // One of the two lies on the other.
      if (l.other >= in.own_items) continue;
      stacked = std::max(stacked, std::min(l.height + in.items[l.other].size, l.other_height + it.size));
    }
  }
  return std::max(pinned, with_reserved(in, stacked));
}

bytes max_live(const problem& p) {
  const instance in = make_instance(p);
  if (p.conflicts) {
    bytes largest = 0;
    for (index i = 0; i < p.buffers.size(); ++i) largest = std::max(largest, p.footprint(i));
    return largest;
  }
  return static_cast<bytes>(section_bound(in)) * in.unit;
}

}  // namespace berth::plan
