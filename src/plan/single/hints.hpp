// Hints: of the layouts in an arena that is decided, one that keeps many items where they were asked to be.
#pragma once

#include <cstdint>

#include "plan/greedy/greedy.hpp"
#include "plan/model/instance.hpp"

namespace berth::plan {

struct kept_hints {
  std::uint64_t nodes = 0;
  bool most = false;  // proved: no layout in this arena keeps more items at their hints
};

// Replaces `found` by a layout in no larger an arena that keeps more items at their hints, if it finds one. Tries all
// hints that agree with each other, then without the fewest: item by item if they are few, else by halves. `thorough`
// is false for one greedy pass; `nodes`: search nodes that may be spent. Deterministic.
[[nodiscard]] kept_hints keep_hints(const instance& in, layout& found, bool thorough, std::uint64_t nodes,
                                    const patience& wait = {});

}  // namespace berth::plan
