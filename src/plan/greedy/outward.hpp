// Sweeps outwards from the tallest section, with particles.
//
// The buffers of that section are stacked without a hole. From there one sweep goes forwards in time and one backwards
// (greedy/frontier.hpp). With several particles all sweeps advance by a part of a mean life with random preferences.
// Then the third with the lowest tops, and the fewest gaps among equals, replaces the others: a beam over time.
// Decision 0036 says what it gains.
#pragma once

#include <cstdint>

#include "plan/greedy/greedy.hpp"

namespace berth::plan {

// Lowers `best` by passes with 1, 4, 8, ... particles until it meets `goal`, has taken `most_looks` or the wait is
// over. Returns whether it is lower. Does nothing where the instance has more than one lifetime an item. Deterministic
// but for the wait.
bool lower_outwards(const instance& in, layout& best, units goal, std::uint64_t most_looks, const patience& wait);

}  // namespace berth::plan
