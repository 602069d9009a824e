#include "plan/bound/heads.hpp"

#include <algorithm>
#include <utility>

#include "plan/policy.hpp"

namespace berth::plan {
namespace {

// Returns the heights of two items under each other; 0 and 0 if they do not conflict.
std::pair<units, units> heights(const instance& in, const item& a, const item& b, std::uint32_t b_number) {
  std::pair<units, units> tallest{0, 0};
  const auto add = [&](units x, units y) { tallest = {std::max(tallest.first, x), std::max(tallest.second, y)}; };
  const auto x = in.ranges_of(a), y = in.ranges_of(b);
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i].first < y[j].last && y[j].first < x[i].last) add(x[i].height, y[j].height);
    if (x[i].last <= y[j].last) {
      ++i;
    } else {
      ++j;
    }
  }
  for (const item_link& l : in.links_of(a)) {
    if (l.other == b_number) add(l.height, l.other_height);
  }
  return tallest;
}

// Returns the first offset for item i that is clear of pinned items.
units head_of(const instance& in, std::uint32_t i, const std::vector<std::uint32_t>& pinned) {
  units head = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::uint32_t q : pinned) {
      const auto [height, height_of_pinned] = heights(in, in.items[i], in.items[q], q);
      const units pin = in.items[q].pin;
      if (height == 0 || head >= pin + height_of_pinned || pin >= head + height) continue;
      head = pin + height_of_pinned;
      changed = true;
    }
  }
  return head;
}

}  // namespace

std::vector<units> heads_of(const instance& in, const patience& wait) {
  std::vector<units> heads(in.items.size(), 0);
  std::vector<std::uint32_t> pinned;
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    if (in.items[i].pin != no_offset) pinned.push_back(i);
  }
  if (pinned.empty() || pinned.size() * (in.ranges.size() + in.links.size()) > policy::most_head_pairs) return heads;
  std::sort(pinned.begin(), pinned.end(),
            [&](std::uint32_t a, std::uint32_t b) { return in.items[a].pin < in.items[b].pin; });
  for (std::uint32_t i = 0; i < in.own_items && !wait.over(pinned.size()); ++i) {
    if (in.items[i].pin == no_offset) heads[i] = head_of(in, i, pinned);
  }
  return heads;
}

}  // namespace berth::plan
