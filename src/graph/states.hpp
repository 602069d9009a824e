// What a plan does not say of states: their names. Equal structures with other names are other states, whose bytes are
// not the ones that are kept.
#pragma once

#include <string>
#include <vector>

#include "berth/graph/fault.hpp"
#include "berth/graph/graph.hpp"

namespace berth {

// In order of declaration.
[[nodiscard]] std::vector<std::string> names_of_states(const graph& g);

// Whether the states of g, whose structure is the one that was planned, have these names. O(values).
[[nodiscard]] bool same_state_names(const std::vector<std::string>& names, const graph& g) noexcept;

// The first state of g that is not the one of that name and size in `planned`, or is missing from g; none: all are.
[[nodiscard]] graph_fault changed_state(const graph_structure& planned, const std::vector<std::string>& names,
                                        const graph& g);

}  // namespace berth
