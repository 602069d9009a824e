// The cost of alignments to a clique in any order: a bound on bytes that are multiples of a step.
//
// ceil(H / step) of the offsets below H are multiples of the step, and no two items of a clique take the same one. An
// item of some height at a multiple of its alignment takes at least
//   (height + gcd(alignment, step) - 1) / step
// of them: that many if it begins right above one, at the first multiple of the gcd, and no fewer elsewhere. An item
// counts as its height rounded up if the step divides its alignment. Items of smaller alignment fill the rest.
#pragma once

#include <numeric>
#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

[[nodiscard]] constexpr units multiples_below(units offset, units step) noexcept {
  return (offset + step - 1) / step;
}

[[nodiscard]] constexpr units fewest_multiples(units height, units alignment, units step) noexcept {
  return height == 0 ? 0 : (height + std::gcd(alignment, step) - 1) / step;
}

// Returns the most frequent alignments above 1 of unpinned items, the most frequent first; `policy::most_steps` at
// most.
[[nodiscard]] std::vector<units> steps_of(const instance& in);

}  // namespace berth::plan
