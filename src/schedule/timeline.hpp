// What is live at each step of a list in which nodes may stand more than once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

// A root from one run of its producer to the last use of what that made.
struct stay {
  std::uint32_t root = 0;
  std::uint32_t born = 0;           // step; 0 also for what is there from the start
  std::uint32_t last = 0;           // step of the last use; the number of steps where it is wanted in the end
  std::vector<std::uint32_t> uses;  // steps, rising
};

struct timeline {
  std::vector<bytes> live;  // by step, what runs there included
  std::vector<stay> stays;
  bytes peak = 0;
};

// Contract: a producer runs before each use. O(steps + edges).
[[nodiscard]] timeline trace_steps(const net& n, std::span<const std::uint32_t> steps);

}  // namespace berth::schedule
