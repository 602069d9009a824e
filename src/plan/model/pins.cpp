#include "plan/model/pins.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace berth::plan {

// Sweeps over sections and keeps the pinned, live and disjoint ranges, so that a new one can only collide with its
// neighbours.
std::vector<bool> pins_that_clash(const instance& in) {
  struct pinned {
    units lo, hi;
    bool operator<(const pinned& other) const { return lo < other.lo; }
  };
  struct change {
    std::uint32_t section;
    bool begins;
    std::uint32_t item;
    pinned what;
  };
  std::vector<bool> gone(in.items.size(), false);
  std::vector<change> changes;
  const auto add = [&](std::uint32_t i) {
    const item& it = in.items[i];
    if (it.pin == no_offset) return;
    for (const item_link& l : in.links_of(it)) {
      const units other = in.items[l.other].pin;
      const bool before = i < in.own_items && (l.other < i || l.other >= in.own_items) && !gone[l.other];
      if (before && other != no_offset && it.pin < other + l.other_height && other < it.pin + l.height) gone[i] = true;
    }
    for (const section_range& r : in.ranges_of(it)) {
      changes.push_back({r.first, true, i, {it.pin, it.pin + r.height}});
      changes.push_back({r.last, false, i, {it.pin, it.pin + r.height}});
    }
  };
  for (std::uint32_t i = in.own_items; i < in.items.size(); ++i) add(i);  // reserved ranges come first, and stay
  for (std::uint32_t i = 0; i < in.own_items; ++i) add(i);
  std::stable_sort(changes.begin(), changes.end(), [](const change& x, const change& y) {
    return x.section != y.section ? x.section < y.section : x.begins < y.begins;
  });
  std::set<pinned> alive;
  for (const change& c : changes) {
    if (gone[c.item]) continue;  // since a clash no part of it is alive
    if (!c.begins) {
      alive.erase(c.what);
      continue;
    }
    const auto above = alive.lower_bound(c.what);
    gone[c.item] =
        (above != alive.end() && above->lo < c.what.hi) || (above != alive.begin() && std::prev(above)->hi > c.what.lo);
    if (!gone[c.item]) alive.insert(above, c.what);
  }
  return gone;
}

}  // namespace berth::plan
