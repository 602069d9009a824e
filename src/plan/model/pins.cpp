#include "plan/model/pins.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace berth::plan {

// Sweeps over sections and keeps the pinned, live and disjoint ranges, so that a new one can only collide with its
// neighbours.
std::vector<std::uint32_t> pins_that_clash(const instance& in) {
  struct pinned {
    units lo, hi;
    std::uint32_t item;
    bool operator<(const pinned& other) const { return lo < other.lo; }
  };
  struct change {
    std::uint32_t section;
    bool begins;
    pinned what;
  };
  std::vector<std::uint32_t> with(in.items.size(), no_item);
  std::vector<change> changes;
  const auto add = [&](std::uint32_t i) {
    const item& it = in.items[i];
    if (it.pin == no_offset) return;
    for (const item_link& l : in.links_of(it)) {
      const units other = in.items[l.other].pin;
      const bool before = i < in.own_items && (l.other < i || l.other >= in.own_items) && with[l.other] == no_item;
      if (before && other != no_offset && it.pin < other + l.other_height && other < it.pin + l.height)
        with[i] = l.other;
    }
    for (const section_range& r : in.ranges_of(it)) {
      changes.push_back({r.first, true, {it.pin, it.pin + r.height, i}});
      changes.push_back({r.last, false, {it.pin, it.pin + r.height, i}});
    }
  };
  for (std::uint32_t i = in.own_items; i < in.items.size(); ++i) add(i);  // reserved ranges come first, and stay
  for (std::uint32_t i = 0; i < in.own_items; ++i) add(i);
  std::stable_sort(changes.begin(), changes.end(), [](const change& x, const change& y) {
    return x.section != y.section ? x.section < y.section : x.begins < y.begins;
  });
  std::set<pinned> alive;
  for (const change& c : changes) {
    std::uint32_t& other = with[c.what.item];
    if (other != no_item) continue;  // since a clash no part of it is alive
    if (!c.begins) {
      alive.erase(c.what);
      continue;
    }
    const auto above = alive.lower_bound(c.what);
    if (above != alive.end() && above->lo < c.what.hi) {
      other = above->item;
    } else if (above != alive.begin() && std::prev(above)->hi > c.what.lo) {
      other = std::prev(above)->item;
    } else {
      alive.insert(above, c.what);
    }
  }
  return with;
}

}  // namespace berth::plan
