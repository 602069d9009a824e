// Which values are dropped and made again, until no step needs more than it may.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

// Steps that run some nodes again (those that `may`), so that as little as possible is live above `aim`, at little
// cost. The given ones where nothing helps. `work`, in steps traced, is what making them cheaper may spend; what is
// left of it comes back. Deterministic but for `stop`.
[[nodiscard]] std::vector<std::uint32_t> drop_until(const net& n, const std::vector<std::uint32_t>& steps, bytes aim,
                                                    const std::vector<double>& cost,
                                                    const std::vector<std::uint8_t>& may, std::uint64_t& work,
                                                    const std::atomic<bool>* stop);

}  // namespace berth::schedule
