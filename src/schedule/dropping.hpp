// Which values are dropped and made again, or copied away and back, until no step needs more than it may.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/timeline.hpp"

namespace berth::schedule {

// What may be done to free memory, and what it costs.
struct means {
  const net& n;
  const std::vector<double>& cost;         // by node: of one run
  const std::vector<std::uint8_t>& again;  // by node: may run again
  const std::vector<std::uint8_t>& moves;  // by root: may lie in the slow memory
  const std::optional<transfer>& link;     // to it; none: nothing moves
};

// Steps (as timeline.hpp numbers them) that run some nodes again and copy some values, so that as little as possible is
// live above `aim`, at little cost. The given ones where nothing helps. `steps_left`, of those traced, is what making
// them cheaper may spend; what is left of it comes back. Deterministic but for `stop`.
[[nodiscard]] std::vector<std::uint32_t> drop_until(const means& by, const std::vector<std::uint32_t>& steps, bytes aim,
                                                    std::uint64_t& steps_left, const std::atomic<bool>* stop);

}  // namespace berth::schedule
