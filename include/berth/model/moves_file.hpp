// Plans with moves in files: JSON as berth plan writes it (docs/plan.md).
#pragma once
#pragma GCC visibility push(default)

#include <string>

#include "berth/model/problem_file.hpp"
#include "berth/plan/moves.hpp"

namespace berth::model {

// Returns the stays as buffers, for plan_json(), plan_header() and pictures of a plan's layout. An id appears once a
// stay.
[[nodiscard]] problem_file file_of_stays(const problem_file& file, const plan::moves_plan& answer);

// Returns the plan as plan_json() of the layout, one entry of `buffers` a stay. Adds access_time, stall_time,
// slowest_time (slowest_access() in memories.hpp), unmoved_time (null: no plan without moves was found), cost_bound,
// copied_bytes, the notes if there are any, and moves:[{id, from, to, start, end, begin_time, done_time}]. Contract:
// file.traffic, and the plan has offsets and has passed verify().
[[nodiscard]] std::string moves_json(const problem_file& file, const plan::moves_plan& answer, double elapsed_ms);

// Reads such a plan back; `file` becomes stricter by its rules as in read_plan(). It may break any rule, which verify()
// reports. Throws input_error: not such a plan, or of other buffers or pools. Contract: file.traffic.
[[nodiscard]] plan::moves_plan read_moves_plan(const std::string& path, problem_file& file);

}  // namespace berth::model
#pragma GCC visibility pop
