// One order of the buffers for every permutation of a problem.
//
// Buffers are sorted by birth, death and footprint. The remaining fields and the relations decide between equals.
// Relations enter through a colour that is refined by the colours of the partners (Weisfeiler and Leman, 1968):
// conflicts, separations, groups and penalties. Names decide next, then the order of the caller. Buffers without names
// that agree in all of that are interchangeable, unless the relations are regular enough to deceive the refinement.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

struct reordered {
  problem in_order;          // without the names of its buffers
  std::vector<index> given;  // by buffer of it: the caller's index
};

// Returns the problem in canonical order; nothing where the caller's order is that one, or where the wait is over.
// Costs O(n) for buffers that come sorted by birth and death, else O(n log n), and O(relations). Contract: validate()
// passed.
[[nodiscard]] std::optional<reordered> in_canonical_order(const problem& p, const patience& wait = {});

// Names the buffers of a plan of `r.in_order` as the caller does. O(n).
void to_given_order(const reordered& r, plan& of);

// Returns one number by buffer of the caller, by buffer of `r.in_order`. O(n).
[[nodiscard]] std::vector<double> in_order_of(const reordered& r, std::span<const double> given);

}  // namespace berth::plan
