// verify() within a wait that the caller shares with other work of its own.
#pragma once

#include "berth/plan/verify.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// As verify(); where the wait ends before it is done, nothing is said of the plan.
[[nodiscard]] std::optional<violation> verify_within(const problem& p, const plan& answer, const patience& wait);

}  // namespace berth::plan
