// The items of tall sections first, then all else once.
//
// Most of a large instance has room to spare; what decides the arena are the items that live in its tall sections, a
// few per cent of all, and those that are large. They are laid out alone, as an instance of their own: by first fit,
// then by ejection chains. The rest goes around them by falling size, since what is large finds no room late.
#pragma once

#include <optional>

#include "plan/greedy/greedy.hpp"

namespace berth::plan {

// Nothing where more than a sixth of the items live in sections taller than nine tenths of the target. Work: a pass
// over the items, and ejections where the tall ones do not end at the target.
[[nodiscard]] std::optional<layout> tall_first(const instance& in, units target, const patience& wait = {});

}  // namespace berth::plan
