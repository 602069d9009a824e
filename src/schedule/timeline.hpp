// The live bytes at each step of a list in which nodes may occur more than once. Values may be copied to and from a
// slow memory. Steps are numbered as in a net: nodes, then by root the copies out, then the copies in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "berth/schedule/steps.hpp"
#include "schedule/net.hpp"

namespace berth::schedule {

[[nodiscard]] inline step_meaning meaning_of(const net& n, std::uint32_t step) noexcept {
  if (step < n.size()) return {step_kind::node, step};
  const auto roots = static_cast<std::uint32_t>(n.root.size());
  step -= n.size();
  return step < roots ? step_meaning{step_kind::out, step} : step_meaning{step_kind::in, step - roots};
}
[[nodiscard]] inline std::uint32_t copy_out(const net& n, std::uint32_t root) noexcept {
  return n.size() + root;
}
[[nodiscard]] inline std::uint32_t copy_in(const net& n, std::uint32_t root) noexcept {
  return n.size() + static_cast<std::uint32_t>(n.root.size()) + root;
}

// A root from one run of its producer, or from its copy in, to the last use of that instance.
struct stay {
  std::uint32_t root = 0;
  std::uint32_t born = 0;           // step; 0 also for roots that exist from the start
  std::uint32_t last = 0;           // step of the last use; the number of steps if it is needed at the end
  bool taken = false;               // the last use reuses its bytes
  std::vector<std::uint32_t> uses;  // steps, rising; copies out too
};

struct timeline {
  std::vector<bytes> live;  // by step, with that of the running node
  std::vector<stay> stays;
  bytes peak = 0;
};

// Contract: a producer runs before each use. O(steps + edges).
[[nodiscard]] timeline trace_steps(const net& n, std::span<const std::uint32_t> steps);

// Returns the time of a copy.
[[nodiscard]] inline double time_of(const transfer& link, bytes size) noexcept {
  return link.latency + static_cast<double>(size) / link.bandwidth;
}

// Returns the cost of repeated runs and of waiting for copies, as spending_of() counts it, but with rounded sizes.
// O(steps + edges).
[[nodiscard]] double extra_cost_of(const net& n, std::span<const std::uint32_t> steps, std::span<const double> cost,
                                   const std::optional<transfer>& link);

}  // namespace berth::schedule
