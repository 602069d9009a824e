// Local search: stretches of an order round its peak, each ordered anew by the exact search.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

// Changes `order` as long as its peak, or the number of places where it has it, falls; down to `target`. The peak never
// rises. `states_left`: of the exact search, which it lowers by what it spends. Deterministic but for `stop`.
void improve_by_windows(const net& n, std::vector<std::uint32_t>& order, bytes target, std::uint64_t& states_left,
                        const std::atomic<bool>* stop);

}  // namespace berth::schedule
