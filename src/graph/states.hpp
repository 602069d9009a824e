// The names of states, which a plan does not contain. Equal structures with other names have other states, whose bytes
// are not the kept ones.
#pragma once

#include <string>
#include <vector>

#include "berth/graph/graph.hpp"

namespace berth {

// Returns the names in order of declaration.
[[nodiscard]] std::vector<std::string> names_of_states(const graph& g);

// Returns true if the states of g, which has the planned structure, have these names. O(values).
[[nodiscard]] bool same_state_names(const std::vector<std::string>& names, const graph& g) noexcept;

// Returns the first state of g that differs in name or size from `planned`, or is missing from g; none: all match.
[[nodiscard]] graph_fault changed_state(const graph_structure& planned, const std::vector<std::string>& names,
                                        const graph& g);

}  // namespace berth
