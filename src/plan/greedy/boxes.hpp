// Many small items as few larger ones, for instances so large that one greedy pass over all items is dear.
//
// Time is cut into pages. Small items whose lives lie within one page are swept (sweeper.hpp) into one box, which lives
// as long as they do together and is as tall as the sweep needs; then boxes and further items into boxes of a page
// eight times as long, and so on. (Boxes of items of like lifetimes: Buchsbaum et al., "OPT versus LOAD in dynamic
// storage allocation", STOC 2003.) A box wastes what its items leave free in it, so one is only made where that does
// not matter: nothing in it is tall beside the target, and all that is live beside it, with the box, stays well below
// the target. Tall sections, which decide the arena, keep their items.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/model/instance.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

struct boxed {
  struct place {
    std::uint32_t item = 0;  // of `coarse`
    units within = 0;        // above that item's offset
  };
  instance coarse;            // items, ranges and sections only
  std::vector<place> places;  // by item of the fine instance
};

// Nothing where the instance has links or reserved ranges, where boxes would save less than half of the items, or where
// the wait is over.
// O(n log n / log 8).
[[nodiscard]] std::optional<boxed> put_in_boxes(const instance& in, units target, const patience& wait = {});

// Offsets of the fine instance's items, given those of the coarse one.
[[nodiscard]] std::vector<units> take_out_of_boxes(const boxed& b, const std::vector<units>& offsets);

}  // namespace berth::plan
