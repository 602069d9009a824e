// Finds the order of a net with the least peak within the allowance, and a bound over all orders.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

struct allowance {
  std::uint64_t states = 0;  // of the exact search, in all
  std::uint64_t edges = 0;   // of minimum cuts
  std::uint64_t nodes = 0;   // visited by greedy rules
  const std::atomic<bool>* stop = nullptr;
};

struct arranged {
  std::vector<std::uint32_t> order;
  bytes peak = 0;
  bytes bound = 0;  // no order has a lower peak
};

// `given` is an order of n. The result's peak is never above that of `given`. Deterministic except for `stop`.
[[nodiscard]] arranged arrange(const net& n, const std::vector<std::uint32_t>& given, allowance& allowed);

}  // namespace berth::schedule
