// The items of tall sections first, in several orders, then all else once.
//
// Most of a large instance has room to spare; what decides the arena are the items that live in its tall sections, a
// few per cent of all. Their order can be mended often for the price of one pass over everything. The rest goes around
// the best of that by falling size, since what is large finds no room late.
#pragma once

#include <optional>

#include "plan/greedy/greedy.hpp"

namespace berth::plan {

// Stops at `target`. Nothing where more than a third of the items are tall ones. Work: one to three passes over the
// items; more only where the rest does not fit around the tall.
[[nodiscard]] std::optional<layout> tall_first(const instance& in, units target);

}  // namespace berth::plan
