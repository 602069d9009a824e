// The search for residences: insertion of one item after the other, then removal and insertion of a few at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "berth/plan/solve.hpp"
#include "plan/residence.hpp"

namespace berth::plan {

struct moved_items {
  std::vector<residence> where;  // by item; empty: none was found
  playout timing;
};

// The cheapest residences found, in which no memory's live bytes exceed the model's limits. Starts from `start`, too,
// where it is not empty and keeps the limits. `seed` only for variety. Deterministic but for a deadline.
[[nodiscard]] moved_items find_residences(const moving_model& model, const std::vector<residence>& start,
                                          std::uint64_t most_work, const options& o, std::uint64_t& work);

// Proved: no residences cost less.
[[nodiscard]] double least_cost(const moving_model& model);

}  // namespace berth::plan
