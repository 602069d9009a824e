// The parts of verify(), and verify_bound() within a wait.
#pragma once

#include <span>

#include "berth/plan/certificate.hpp"
#include "berth/plan/refutation.hpp"
#include "berth/plan/verify.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// Works as verify() on a problem as if without dimensions, uses, steps and links. Reports no violation if the wait ends
// before it is done.
[[nodiscard]] std::optional<violation> verify_within(const problem& p, const plan& answer, const patience& wait);

// Checks the order of a plan for all values of the dimensions, and its offsets at the largest values if it has any.
[[nodiscard]] std::optional<violation> verify_order(const problem& p, const plan& answer);

// Checks stays, moves and their places. Shares no code with the planner.
[[nodiscard]] std::optional<violation> verify_moves(const problem& p, const plan& answer);

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
