// Pins that exclude each other.
#pragma once

#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

// Marks each item that is pinned onto a reserved range, or onto another pinned item that comes earlier and is unmarked.
// No pins clash if none is marked, or once the marked ones are removed. O((pins + links) log pins).
[[nodiscard]] std::vector<bool> pins_that_clash(const instance& in);

}  // namespace berth::plan
