// The planning problem of a graph, as `berth plan` shows it.
#pragma once

#include <functional>
#include <string>

#include "berth/graph/graph_plan.hpp"
#include "berth/model/problem_file.hpp"

namespace berth::model {

// Makes one buffer for every chain of values that share memory in place, called `name_of` its first member. Workspaces
// are called after their nodes. States lie in the arena throughout.
[[nodiscard]] problem_file problem_of_graph(const std::string& path, const graph& g, const rules::placement& rules,
                                            const std::function<std::string(value_id)>& name_of);

}  // namespace berth::model
