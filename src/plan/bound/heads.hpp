// The least offsets of items beside pinned ones.
#pragma once

#include <vector>

#include "plan/model/instance.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Returns for each unpinned item the first offset, aligned or not, that is clear of all pinned ones; 0 if that would
// take long. O(pinned items * (ranges + links)).
[[nodiscard]] std::vector<units> heads_of(const instance& in, const patience& wait);

}  // namespace berth::plan
