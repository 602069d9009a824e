// The keys of berth-problem/1 about moves.
#pragma once

#include "berth/model/problem_file.hpp"
#include "model/files/json_fields.hpp"

namespace berth::model {

// Adds `transfers`, `steps` and the buffers' `uses` to the problem. `file` has the pools and buffers of the document
// `root`, in its order. Throws input_error.
void read_traffic(const json_value& root, problem_file& file);

}  // namespace berth::model
