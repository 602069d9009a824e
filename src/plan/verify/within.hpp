// verify() and verify_bound() within a wait.
#pragma once

#include "berth/plan/certificate.hpp"
#include "berth/plan/verify.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// As verify(); where the wait ends before it is done, nothing is said of the plan.
[[nodiscard]] std::optional<violation> verify_within(const problem& p, const plan& answer, const patience& wait);

// As verify_bound(); where the wait ends before it is done, nothing is said of the bound.
[[nodiscard]] std::optional<objection> verify_bound_within(const problem& p, bytes lower_bound,
                                                           const certificate& proof, const patience& wait);

// What verify_bound() waits for.
[[nodiscard]] patience bound_patience(const problem& p);

}  // namespace berth::plan
