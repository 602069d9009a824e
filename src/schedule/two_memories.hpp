// Moves alone, by the planner of several memories (plan/moves.hpp): a start for the search, fast.
#pragma once

#include "schedule/dropping.hpp"

namespace berth::schedule {

// The steps with the copies that solve_moves() finds for a fast memory of `aim` bytes; the given ones where it finds
// none. That planner has copies between steps take memory in both; what is live here is for the caller to trace.
// Contract: by.link; no node stands there twice.
[[nodiscard]] std::vector<std::uint32_t> with_planned_copies(const means& by, const std::vector<std::uint32_t>& steps,
                                                             bytes aim, const std::atomic<bool>* stop = nullptr);

}  // namespace berth::schedule
