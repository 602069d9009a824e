// verify: an independent check of a plan. Shares no code with any solver.
#pragma once

#include <cstdint>
#include <optional>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

struct violation {
  const char* rule = "";  // static text: what is violated
  index a = 0;            // the buffer at fault
  index b = 0;            // the other one, where two are (else = a)
  bytes number = 0;       // the offset, arena or capacity that the text speaks of
};

// The first violation in the order: shape, alignment, pins, groups, capacity, reserved ranges, overlaps, arena; or
// nothing. Contract: validate() passed. O(n log n + overlapping pairs of groups), by a sweep over time.
[[nodiscard]] std::optional<violation> verify(const problem& p, const plan& answer);

}  // namespace berth::plan
