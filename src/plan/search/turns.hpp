// Several searches at one capacity, each given its search nodes: one after the other or side by side, with the same
// result.
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
  search_status got = search_status::paused;
};

// Returns the index of the first turn that ends (found or exhausted), or turns.size() if none does. The caller must
// ignore the turns behind it: other threads may have begun them, and they must not change the answer. Asks `wait` every
// few nodes, on the calling thread only, whether it is due. The caller reports the nodes of the turns up to that index.
// A limit counted by one of several threads would depend on that thread's turns.
[[nodiscard]] std::size_t take_turns(std::span<turn> turns, unsigned threads, const patience& wait);

}  // namespace berth::plan
