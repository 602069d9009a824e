// An instance as the stretches of its time that no item lives across: each can be laid out as if it were alone.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/greedy/greedy.hpp"
#include "plan/model/instance.hpp"

namespace berth::plan {

struct component {
  instance in;                       // items, ranges and sections only, in units of its own: what is large is then few
  units scale = 1;                   // of those of the whole
  std::vector<std::uint32_t> items;  // of the whole, by item of `in`
};

// Returns the components in order of time; none if conflicts do not show in lifetimes, or ranges are reserved. O(ranges
// + sections).
[[nodiscard]] std::vector<component> components_of(const instance& in);

// Returns a component's own layout out of one of the whole. Contract: c.scale is 1.
[[nodiscard]] layout layout_of(const component& c, const layout& whole);

}  // namespace berth::plan
