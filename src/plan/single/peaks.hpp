// Layouts by peaks. If hundreds of items are alive at any time, few sections (the peaks) nearly reach the target. Their
// items form groups of some hundred that live at different times. A complete search lays out most groups at the target,
// in milliseconds each. Ejection chains (greedy/ejection.hpp) fit the other items in around them. Ejections alone get
// stuck at the highest peak, a per cent or more above the target.
#pragma once

#include <cstdint>

#include "berth/plan/solve.hpp"
#include "plan/greedy/greedy.hpp"
#include "plan/model/instance.hpp"

namespace berth::plan {

// Lowers `found` to the target, or to the height that the hardest group reached. Leaves it as it is if that gains
// nothing, if items are few or have several lifetimes each, or if a group is too large. Returns the search nodes spent.
// Reads the effort, the node limit and the threads of `o`.
std::uint64_t lower_peaks(const instance& in, layout& found, units target, const options& o, const patience& wait);

// Works as lower_peaks(), in a time that grows with `seconds`, for effort fast. Searches each group once, with its
// share of that time, and lays it out as far down as it got. Small items are in no group; items in no group are placed
// in order of size.
std::uint64_t place_core_first(const instance& in, layout& found, units target, double seconds, const options& o,
                               const patience& wait);

}  // namespace berth::plan
