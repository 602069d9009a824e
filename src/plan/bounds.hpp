// Lower bounds on an instance's arena, in units.
#pragma once

#include "plan/instance.hpp"

namespace berth::plan {

// The tallest section. O(ranges).
[[nodiscard]] units section_bound(const instance& in);

// The best of the cheap bounds: sections, pins, links.
[[nodiscard]] units arena_bound(const instance& in);

}  // namespace berth::plan
