#include "plan/several/heights.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace berth::plan {

std::vector<height_change> heights_over_time(const problem& p, const std::vector<bundle>& bundles) {
  std::vector<height_change> changes;
  for (index u = 0; u < bundles.size(); ++u) {
    std::vector<std::pair<tick, std::pair<bool, bytes>>> events;  // ends (false) sort before starts
    for (const index i : bundles[u].members) {
      const buffer& b = p.buffers[i];
      const auto add = [&](const interval& live) {
        events.push_back({live.lower, {true, p.footprint(i)}});
        events.push_back({live.upper, {false, p.footprint(i)}});
      };
      if (b.lifetimes.empty()) add(b.live);
      for (const interval& live : b.lifetimes) add(live);
    }
    std::sort(events.begin(), events.end());
    std::multimap<bytes, int> live;
    const std::size_t begin = changes.size();
    bytes before = 0;
    for (std::size_t k = 0; k < events.size(); ++k) {
      const auto& [at, what] = events[k];
      if (what.first) {
        live.emplace(what.second, 0);
      } else {
        live.erase(live.find(what.second));
      }
      if (k + 1 < events.size() && events[k + 1].first == at) continue;
      const bytes height = live.empty() ? 0 : live.rbegin()->first;
      changes.push_back({.at = at, .bundle = u, .height = height, .growing = height > before});
      before = height;
    }
    changes[begin].first = true;
    changes.back().last = true;
  }
  std::stable_sort(changes.begin(), changes.end(), [](const height_change& x, const height_change& y) {
    const auto rank = [](const height_change& c) { return c.first ? 2 : c.growing ? 1 : 0; };
    return x.at != y.at ? x.at < y.at : rank(x) < rank(y);
  });
  return changes;
}

}  // namespace berth::plan
