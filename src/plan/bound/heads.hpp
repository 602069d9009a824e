// How low items can lie beside what is pinned.
#pragma once

#include <vector>

#include "plan/model/instance.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// By item that is not pinned: the first offset, aligned or not, that is clear of all that is; 0 where that would take
// long. O(pinned items * (ranges + links)).
[[nodiscard]] std::vector<units> heads_of(const instance& in, const patience& wait);

}  // namespace berth::plan
