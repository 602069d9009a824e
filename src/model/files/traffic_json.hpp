// The keys of berth-problem/1 that speak of moves.
#pragma once

#include <optional>

#include "berth/model/problem_file.hpp"
#include "model/files/json_fields.hpp"

namespace berth::model {

// `transfers`, `steps` and the buffers' `uses`; nothing where there is none of them. `file` has the pools and buffers
// of the document `root`, in its order. Throws input_error.
[[nodiscard]] std::optional<plan::traffic> read_traffic(const json_value& root, const problem_file& file);

}  // namespace berth::model
