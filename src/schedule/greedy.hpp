// Orders by a rule, one node at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

enum class rule : std::uint8_t {
  least_left,  // the ready node that leaves least live; of equals the one with the smaller step
  least_step,  // the one whose step needs least; of equals the one that leaves less
  deepest,     // a node that frees memory; else the one made ready last: one branch after the other
};

// Returns an order by the rule; of equal nodes, the first in `hint` comes first. Returns an empty order if
// `looks_left`, in visited nodes, was used up. O(nodes x ready nodes).
[[nodiscard]] std::vector<std::uint32_t> greedy_order(const net& n, const std::vector<std::uint32_t>& hint, rule by,
                                                      std::uint64_t& looks_left);

}  // namespace berth::schedule
