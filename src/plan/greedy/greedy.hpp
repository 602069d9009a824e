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
  size,     // what is aligned most, then what is largest, then what lives longest
  birth,    // what begins first, then what lives longest
  death,    // the same backwards in time
  area,     // what is aligned most, then size times lifetime and links
  time,     // size times the ticks it lives, where these are known
  degree,   // what conflicts longest, then what is largest
};

// The items without the pinned ones, in the given order; ties by index.
// In any order where the wait is over. `aligned_first`: whether orders by size and area put alignment before them.
[[nodiscard]] std::vector<std::uint32_t> sorted_items(const instance& in, order by, const patience& wait = {},
                                                      bool aligned_first = true);

// By falling degree, then size.
[[nodiscard]] std::vector<std::uint32_t> sorted_items(const instance& in, const std::vector<std::uint32_t>& degrees);

// Places pinned items, then `items` in turn; those that are left when the wait is over, above all others: as a
// sweep over time lays them, and above that what then lies on what a link keeps apart from it; by first fit, as long as
// that takes little, where conflicts are given; or one on the other where there are too many.
[[nodiscard]] layout place_in_order(const instance& in, occupancy& taken, const std::vector<std::uint32_t>& items,
                                    const patience& wait = {});

// The best of `best` and the portfolio, which ends early at `goal`; what ends above the target in the first order is
// then placed first, some rounds. Effort fast: one pass. What an order has not placed when the wait is over is put
// above the rest, as place_in_order() does it. `show`, if any, is shown what was best on the way.
[[nodiscard]] layout try_orders(const instance& in, units target, units goal, effort level, layout best,
                                const patience& passes, const std::function<void(const layout&)>& show = {});

// Whether the caller's wait is over and the items are too many to finish what was begun.
[[nodiscard]] bool nobody_waits(const instance& in, const patience& wait);

[[nodiscard]] units arena_of(const instance& in, const std::vector<units>& offsets);

}  // namespace berth::plan
