// Where hundreds of items are alive all the time, few sections reach nearly to the target: the peaks. What is alive in
// them falls into groups of some hundred items that live at different times, and a complete search lays out most of
// these at the target, in milliseconds each. All else has room to spare, and ejection chains (greedy/ejection.hpp) fit
// it in around them. Ejections alone are stuck at the highest peak, a per cent or more above the target.
#pragma once

#include <cstdint>

#include "berth/plan/solve.hpp"
#include "plan/greedy/greedy.hpp"
#include "plan/model/instance.hpp"

namespace berth::plan {

// Lowers `found` to the target, or to what the group that is hardest reached; leaves it as it is where nothing is
// gained, of few items, where a group is too large, and where items have more than one lifetime each. Returns the
// search nodes spent: of `o` the effort, the node limit and the threads are read.
std::uint64_t lower_peaks(const instance& in, layout& found, units target, const options& o, const patience& wait);

// As lower_peaks(), in a time that grows with `seconds`, for effort fast: each group is searched once, with its share
// of that, and laid out as far down as it got; small items are in no group, and all that is in none is placed in order
// of size.
std::uint64_t place_core_first(const instance& in, layout& found, units target, double seconds, const options& o,
                               const patience& wait);

}  // namespace berth::plan
