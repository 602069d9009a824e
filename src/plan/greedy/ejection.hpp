// Lowering a layout by ejection chains (Glover, "Ejection chains, reference structures and alternating path methods",
// Discrete Applied Mathematics 1996).
//
// Every item that ends above a target is taken out. The largest item out goes where the items that it overlaps are the
// cheapest to throw out, and those are out in turn. An item's price grows with its size and life. A chain leads from
// large and long-lived items to small and short-lived ones, until the last fits into a hole. The price rises each time
// the item is thrown out, which keeps chains from running in circles. A chain touches only items that live beside it.
// Repairing the few of 100,000 items that end too high costs a fraction of placing all anew.
#pragma once

#include <cstdint>
#include <span>

#include "plan/greedy/greedy.hpp"

namespace berth::plan {

// Each function returns whether it lowered the arena, and leaves `found` as it is if not. A look is at one item, 25 to
// 50 ns.

// Items that keep their places: each costs so many times its price.
struct kept_items {
  std::span<const std::uint32_t> items;  // ascending
  std::int64_t times = 1;
};

// Lowers the arena to `target` or below. The items of `kept` have new offsets in `found` that go together; items that
// overlap them are thrown out first. Does nothing if an item has more than one unbroken lifetime.
bool eject_around(const instance& in, const kept_items& kept, layout& found, units target, std::uint64_t most_looks,
                  const patience& wait = {});

// Halves the distance to `target` again and again, until it is within `near` or the looks are spent. Pinned items keep
// their places. Does nothing if one look around one item (of thousands of lifetimes) would take a sixth of the looks.
bool lower_by_ejection(const instance& in, layout& found, units target, units near, std::uint64_t most_looks,
                       const patience& wait = {});

}  // namespace berth::plan
