// Several searches at one capacity, each given its nodes: one after the other or side by side, with the same result.
#pragma once

#include <cstddef>
#include <span>

#include "plan/patience.hpp"
#include "plan/search/seeker.hpp"

namespace berth::plan {

struct turn {
  seeker* of;
  std::uint64_t nodes;
  std::uint64_t spent = 0;
  outcome got = outcome::paused;
};

// The first turn that does not pause, or turns.size(). It counts as the last one taken: those behind it may have been
// begun, which nobody may see. `wait` is asked on the calling thread only, every few nodes.
[[nodiscard]] std::size_t take_turns(std::span<turn> turns, unsigned threads, const patience& wait);

}  // namespace berth::plan
