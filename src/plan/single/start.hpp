// The layout that a search starts from; of many items mostly the last one.
#pragma once

#include <cstdint>
#include <functional>

#include "berth/plan/solve.hpp"
#include "plan/greedy/greedy.hpp"
#include "plan/model/instance.hpp"

namespace berth::plan {

// Lowers `start`, which may be empty, by the stages of the table in start.cpp until one meets the target. Each stage
// has a budget of looks (policy.hpp). Up to 4,000 items no ejections precede a search: they lead it to the wrong
// capacities (0027).
//
// Reads the effort, the node limit and the threads of `o`. `nodes` grows by the search nodes spent. `show`, if any,
// gets each first plan of a stage.
[[nodiscard]] layout best_start(const instance& in, units target, const options& o, const patience& wait,
                                std::uint64_t& nodes, layout start = {},
                                const std::function<void(const layout&)>& show = {});

}  // namespace berth::plan
