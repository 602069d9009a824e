// Finds live buffers that share bytes: the largest part of verification.
#pragma once

#include <optional>

#include "berth/plan/verify.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Returns the first overlap in the order of time; nothing, too, if the wait ended before the end. The answer has an
// offset for every buffer, and the members of an alias group have one base. O(n log n).
[[nodiscard]] std::optional<violation> overlap_in_time(const problem& p, const plan& answer, const patience& wait);

}  // namespace berth::plan
