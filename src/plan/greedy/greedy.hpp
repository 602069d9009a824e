// The greedy portfolio: items in some order, each at its first fit. Never fails where there is no capacity.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "berth/plan/solve.hpp"
#include "plan/greedy/occupancy.hpp"
#include "plan/model/instance.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Offsets by item, in units.
struct layout {
  std::vector<units> offsets;
  units arena = unbounded;
  std::string_view solver;
};

enum class order : std::uint8_t {
  breadth,  // by the tallest of its sections
  size,
};

// The items without the pinned ones, in the given order; ties by index.
// In any order where the wait is over.
[[nodiscard]] std::vector<std::uint32_t> sorted_items(const instance& in, order by, const patience& wait = {});

// Places pinned items, then `items` in turn; those that are left when the wait is over, above all others, as a sweep
// over time lays them, or one on the other where there are too many to sweep.
[[nodiscard]] layout place_in_order(const instance& in, occupancy& taken, const std::vector<std::uint32_t>& items,
                                    const patience& wait = {});

// The best of the portfolio; stops early at `target`. What ends above it in the first order is then placed first, some
// rounds. Effort fast: one pass. No more than some hundred looks an item (fast), or a second or so (normal), are spent
// on passes: what an order has not placed by then is swept. At effort fast, and of more than 4,000 items, ejection
// chains lower the best (before a search they only lead it to the wrong rungs: 0027).
//
// Above 20,000 items small ones are put in boxes, those of tall sections are placed first, and what then ends more than
// 1/1024 above the target is mended by ejection chains, a second or so of them. Effort best goes on as below 20,000.
//
// `show`, if any, is shown what was best on the way.
[[nodiscard]] layout best_greedy(const instance& in, units target, effort work, const patience& wait = {},
                                 const std::function<void(const layout&)>& show = {});

[[nodiscard]] units arena_of(const instance& in, const std::vector<units>& offsets);

}  // namespace berth::plan
