// Large neighbourhood search for some hundred items. A move keeps the items below a random cut, or outside a window of
// time. A beam refills the rest below the best top (greedy/refill.hpp). Half of the moves turn the layout over first. A
// layout as high as the best replaces it. Pisinger and Ropke, "Large neighborhood search", 2010; decision 0036.
#pragma once

#include <cstdint>

#include "plan/greedy/greedy.hpp"

namespace berth::plan {

// Lowers `best` until it meets `target`, has taken `most_looks` or the wait is over. Returns the looks taken. Does
// nothing if items have several lifetimes each or alignments, are too many, or lie too high for 32 bits. Deterministic
// but for the wait.
std::uint64_t lower_by_cuts(const instance& in, layout& best, units target, std::uint64_t most_looks,
                            const patience& wait);

}  // namespace berth::plan
