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

// Returns the items without the pinned ones in the given order, ties by index; in any order if the wait is over.
// `aligned_first` puts alignment first in the orders by size and area.
[[nodiscard]] std::vector<std::uint32_t> sorted_items(const instance& in, order by, const patience& wait = {},
                                                      bool aligned_first = true);

// Returns the items without the pinned ones by falling degree, then size.
[[nodiscard]] std::vector<std::uint32_t> sorted_items(const instance& in, const std::vector<std::uint32_t>& degrees);

// Places pinned items, then `items` in turn. Items left when the wait is over go above all others, as a sweep over time
// lays them. Above these go the ones that a link forbids there. First fit places them, as long as that takes little, if
// conflicts are given. Too many items are stacked one on the other.
[[nodiscard]] layout place_in_order(const instance& in, occupancy& taken, const std::vector<std::uint32_t>& items,
                                    const patience& wait = {});

// Returns the best of `best` and the portfolio, which ends early at `goal`. Items that end above the target in the
// first order move to its front, some rounds. Effort fast takes two orders and no rounds. Items that have no place when
// the wait is over are put above the rest by place_in_order(). `show`, if any, gets the best layout after each order.
[[nodiscard]] layout try_orders(const instance& in, units target, units goal, effort level, layout best,
                                const patience& passes, const std::function<void(const layout&)>& show = {});

// Returns whether the caller's wait is over and the items are too many to finish the work begun.
[[nodiscard]] bool nobody_waits(const instance& in, const patience& wait);

[[nodiscard]] units arena_of(const instance& in, const std::vector<units>& offsets);

}  // namespace berth::plan
