// Chooses values to drop and recompute, or to copy out and back, until no step exceeds the aim.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/timeline.hpp"

namespace berth::schedule {

// The permitted ways to free memory, and their costs.
struct means {
  const net& n;
  const std::vector<double>& cost;         // by node: of one run
  const std::vector<std::uint8_t>& again;  // by node: may run again
  const std::vector<std::uint8_t>& moves;  // by root: may lie in the slow memory
  const std::optional<transfer>& link;     // to the slow memory; none: no value moves
};

// Returns steps (numbered as in timeline.hpp) that run some nodes again and copy some values. They leave as few live
// bytes above `aim` as possible, at little cost. Returns the given steps if nothing helps. `steps_left` limits the
// traced steps that may be spent on a cheaper result; it returns the rest. Deterministic except for `stop`.
[[nodiscard]] std::vector<std::uint32_t> drop_until(const means& by, const std::vector<std::uint32_t>& steps, bytes aim,
                                                    std::uint64_t& steps_left, const std::atomic<bool>* stop);

// Moves values only, by the planner of several memories (plan/plan.hpp): a fast start for drop_until(). Returns the
// steps with the copies that plan::solve() finds for a fast memory of `aim` bytes; the given ones if it finds none. In
// that planner copies between steps take memory in both. The caller traces the live bytes. Contract: by.link; no node
// occurs twice.
[[nodiscard]] std::vector<std::uint32_t> with_planned_copies(const means& by, const std::vector<std::uint32_t>& steps,
                                                             bytes aim, const std::atomic<bool>* stop = nullptr);

}  // namespace berth::schedule
