// Pins that exclude each other.
#pragma once

#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

// By item: whether it is pinned where a reserved range lies, or another item that was there before and stays. Where
// none is, no pins clash; without those that are, none do. O((pins + links) log pins).
[[nodiscard]] std::vector<bool> pins_that_clash(const instance& in);

}  // namespace berth::plan
