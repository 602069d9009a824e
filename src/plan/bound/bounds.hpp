// Lower bounds on an instance's arena, in units, each with the stack that proves it (berth/plan/certificate.hpp has the
// argument).
#pragma once

#include "berth/plan/certificate.hpp"
#include "plan/model/instance.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Returns the tallest section. O(ranges).
[[nodiscard]] units section_bound(const instance& in);

struct proved_bound {
  units value = 0;
  argument why;  // in the problem's own terms; proves `value`
};

// Returns the best of: the tallest section (plain, and rounded to each alignment), each pinned buffer, the largest
// buffer, each separated pair. Leaves out some pairs once the wait is over. O(n log n + pairs).
[[nodiscard]] proved_bound quick_bound(const problem& p, const instance& in, const patience& wait = {});

// Also bounds every section by all that a stack can say of it. Adds the heaviest cliques of conflicts outside the
// sections (separations, explicit conflicts, several lifetimes). Bounded work: leaves out parts of it on large
// instances. Never below quick_bound, which is the first candidate.
[[nodiscard]] proved_bound thorough_bound(const problem& p, const instance& in, proved_bound quick,
                                          const patience& wait = {});

}  // namespace berth::plan
