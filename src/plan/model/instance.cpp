#include "plan/model/instance.hpp"

#include <algorithm>
#include <numeric>

namespace berth::plan {

bool has_lifetimes_only(const instance& in) {
  return in.sections != 0 && in.links.empty() && in.own_items == in.items.size() &&
         std::all_of(in.items.begin(), in.items.end(),
                     [](const item& it) { return it.pin == no_offset && it.ranges_last - it.ranges_first == 1; });
}

void join_sections(instance& in) {
  constexpr char starts = 1, ends = 2;
  std::vector<char> what(in.sections + std::size_t{1}, 0);
  for (const section_range& r : in.ranges) {
    what[r.first] |= starts;
    what[r.last] |= ends;
  }
  // By old section: the number of new ones that end by it, and that begin by it.
  std::vector<std::uint32_t> ended(what.size()), begun(what.size());
  std::uint32_t now = 0;
  bool any_ended = true;
  for (std::size_t s = 0; s < what.size(); ++s) {
    ended[s] = now;
    any_ended |= (what[s] & ends) != 0;
    if ((what[s] & starts) != 0 && any_ended) {
      ++now;
      any_ended = false;
    }
    begun[s] = now;
  }
  for (section_range& r : in.ranges) r = {begun[r.first] - 1, ended[r.last], r.height};
  in.sections = now;
  in.ticks.clear();
  in.lived.clear();
}

instance only(const instance& in, const std::vector<std::uint32_t>& items) {
  instance out;
  out.unit = in.unit;
  out.sections = in.sections;
  out.items.reserve(items.size());
  for (const std::uint32_t i : items) {
    item it = in.items[i];
    const auto ranges = in.ranges_of(it);
    it.links_first = it.links_last = 0;
    it.ranges_first = static_cast<std::uint32_t>(out.ranges.size());
    out.ranges.insert(out.ranges.end(), ranges.begin(), ranges.end());
    it.ranges_last = static_cast<std::uint32_t>(out.ranges.size());
    out.own_items += i < in.own_items;
    out.items.push_back(it);
  }
  join_sections(out);
  return out;
}

std::vector<units> section_heights(const instance& in) {
  std::vector<units> height(in.sections + std::size_t{1}, 0);
  for (const section_range& r : in.ranges) {
    height[r.first] += r.height;
    height[r.last] -= r.height;
  }
  height.pop_back();
  std::partial_sum(height.begin(), height.end(), height.begin());
  return height;
}

}  // namespace berth::plan
