// The keys of berth-problem/1 about moves.
#pragma once

#include <optional>

#include "berth/model/problem_file.hpp"
#include "model/files/json_fields.hpp"

namespace berth::model {

// Returns `transfers`, `steps` and the buffers' `uses`; nothing if there are none. `file` has the pools and buffers of
// the document `root`, in its order. Throws input_error.
[[nodiscard]] std::optional<plan::traffic> read_traffic(const json_value& root, const problem_file& file);

}  // namespace berth::model
