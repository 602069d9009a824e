// Local search: the exact search reorders stretches of an order around its peak.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

// Changes `order` as long as its peak, or the number of places at the peak, falls; down to `target`. The peak never
// rises. Lowers `states_left` by the states that its exact search expands. Deterministic except for `stop`.
void improve_by_windows(const net& n, std::vector<std::uint32_t>& order, bytes target, std::uint64_t& states_left,
                        const std::atomic<bool>* stop);

}  // namespace berth::schedule
