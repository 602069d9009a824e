// How much of its memory a bundle takes, tick by tick.
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

// A bundle's height: the largest footprint of its members that are live. In order of time; within a tick first what
// shrinks or dies, then bundles that live on and grow, then those that are born: so all else is known when a memory is
// chosen for a new bundle. Of lifetimes, whatever conflicts the problem lists. O(events * log events).
[[nodiscard]] std::vector<height_change> heights_over_time(const problem& p, const std::vector<bundle>& bundles);

}  // namespace berth::plan
