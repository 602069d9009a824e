// The search for residences: insertion of one item after the other, then removal and insertion of a few at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "berth/plan/solve.hpp"
#include "plan/moves/residence.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

struct timed_residences {
  std::vector<residence> where;  // by item; empty: none was found
  playout timing;
  double least_cost = 0;  // proved: none that keep the limits cost less
};

// Returns the cheapest residences found, in which no memory's live bytes exceed the model's limits. Starts from
// `start`, too, if it is not empty and keeps the limits. Deterministic but for a deadline.
[[nodiscard]] timed_residences find_residences(const moving_model& model, const std::vector<residence>& start,
                                               std::uint64_t most_visits, const options& o, const patience& wait,
                                               std::uint64_t& visits);

// Finds other residences for these items, out of `memory`, beside the others. Returns false if one has nowhere to go;
// `found` is then of no use.
[[nodiscard]] bool send_away(const moving_model& model, index memory, const std::vector<index>& items,
                             timed_residences& found);

}  // namespace berth::plan
