// The items of tall sections first, then all else once.
//
// Most of a large instance has room to spare; what decides the arena are the items that live in its tall sections, a
// few per cent of all, and those that are large. They are laid out alone, as an instance of their own: by orders that
// are mended, then by ejection chains. The rest goes around them by falling size, since what is large finds no room
// late.
#pragma once

#include <optional>

#include "plan/greedy/greedy.hpp"

namespace berth::plan {

// Nothing where more than a sixth of the items live in sections taller than nine tenths of the target. Work: one to
// three passes over the items; ejections only where orders do not end within a thousandth of the target.
[[nodiscard]] std::optional<layout> tall_first(const instance& in, units target, const patience& wait = {});

// First fit in the orders by breadth, size and lifetime, which take turns until one ends at the target or so many items
// have been placed (a quarter of that where they are near); every order is tried once at least. In between, the rank of
// what ended above the target is halved. ("Squeaky wheel" optimisation moves it to the front: Joslin and Clements 1999.
// There, orders soon ran in circles.)
[[nodiscard]] layout mend_orders(const instance& in, units target, std::size_t placements, const patience& wait = {});

}  // namespace berth::plan
