// The planning problem of a graph, as `berth plan` shows it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "berth/graph/graph_plan.hpp"
#include "berth/model/problem_file.hpp"

namespace berth::model {

// Makes one buffer for every chain of values that share memory in place, called `name_of` its first member. Workspaces
// are called after their nodes. States lie in the arena throughout. `weights` not null: these are buffers too, and the
// problem has uses (reads::uses). Contract: then the graph has no dimensions.
[[nodiscard]] problem_file problem_of_graph(const std::string& path, const graph& g, const rules::placement& rules,
                                            const std::function<std::string(value_id)>& name_of,
                                            const std::vector<model_weight>* weights = nullptr);

// Returns the constants of a graph that its nodes read, each called by `name_of`. O(values + edges).
[[nodiscard]] std::vector<model_weight> weights_of(const graph& g, const std::function<std::string(value_id)>& name_of);

}  // namespace berth::model
