// Moves alone, by the planner of several memories (plan/plan.hpp): a fast start for the search.
#pragma once

#include "schedule/dropping.hpp"

namespace berth::schedule {

// Returns the steps with the copies that solve_moves() finds for a fast memory of `aim` bytes; the given ones if it
// finds none. In that planner copies between steps take memory in both. The caller traces the live bytes. Contract:
// by.link; no node occurs twice.
[[nodiscard]] std::vector<std::uint32_t> with_planned_copies(const means& by, const std::vector<std::uint32_t>& steps,
                                                             bytes aim, const std::atomic<bool>* stop = nullptr);

}  // namespace berth::schedule
