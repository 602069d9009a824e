// Which values are dropped and made again, until no step needs more than it may.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

// Steps that run some nodes again (those that `may`), so that as little as possible is live above `aim`, at little
// cost. The given ones where nothing helps. Deterministic but for `stop`.
[[nodiscard]] std::vector<std::uint32_t> drop_until(const net& n, const std::vector<std::uint32_t>& steps, bytes aim,
                                                    const std::vector<double>& cost,
                                                    const std::vector<std::uint8_t>& may,
                                                    const std::atomic<bool>* stop);

}  // namespace berth::schedule
