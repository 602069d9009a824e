// verify() and verify_bound() within a wait.
#pragma once

#include <span>

#include "berth/plan/certificate.hpp"
#include "berth/plan/refutation.hpp"
#include "berth/plan/verify.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Works as verify(); reports no violation of the plan if the wait ends before it is done.
[[nodiscard]] std::optional<violation> verify_within(const problem& p, const plan& answer, const patience& wait);

// Tells whether arguments of the kind search count as proved: for the planner itself, which made the search.
enum class searches : std::uint8_t { prove_nothing, are_trusted };

// Works as verify_bound(). Reports no objection to the bound if the wait ends before it is done.
[[nodiscard]] std::optional<objection> verify_bound_within(const problem& p, bytes lower_bound,
                                                           const certificate& proof, const patience& wait,
                                                           searches by = searches::prove_nothing,
                                                           std::span<const refutation> refuted = {});

// Returns the patience of verify_bound().
[[nodiscard]] patience bound_patience(const problem& p);

}  // namespace berth::plan
