// Pins that exclude each other.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

// Returns by item the reserved range that it is pinned onto, or the earlier pinned item without a clash of its own.
// Returns no_item for all others: no pins clash once the rest is removed. O((pins + links) log pins).
[[nodiscard]] std::vector<std::uint32_t> pins_that_clash(const instance& in);

}  // namespace berth::plan
