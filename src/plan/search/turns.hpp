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

// The index of the first turn that ends (found or exhausted), or turns.size() where none does. The caller goes by the
// turns up to that index alone: those behind it may have been begun by other threads, which must not change the answer.
// `wait` is asked on the calling thread only, every few nodes, whether it is due. The caller tells it what the turns
// up to that index spent: a limit counted by one of several threads would depend on which turns that thread got.
[[nodiscard]] std::size_t take_turns(std::span<turn> turns, unsigned threads, const patience& wait);

}  // namespace berth::plan
