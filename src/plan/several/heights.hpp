// The bytes that a bundle takes, tick by tick.
#pragma once

#include <vector>

#include "berth/plan/problem.hpp"
#include "plan/single/parts.hpp"

namespace berth::plan {

struct height_change {
  tick at = 0;
  index bundle = 0;
  bytes height = 0;  // from `at` on
  bool growing = false;
  bool first = false;
  bool last = false;
};

// Returns the changes of each bundle's height, the largest footprint of its live members, in order of time. Within a
// tick bundles that shrink or die come first, then those that grow, then those that are born. All others are thus known
// when a new bundle's memory is chosen. Uses lifetimes even if the problem lists conflicts. O(events * log events).
[[nodiscard]] std::vector<height_change> heights_over_time(const problem& p, const std::vector<bundle>& bundles);

}  // namespace berth::plan
