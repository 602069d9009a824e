// The structured problems of dsa-solver (tonibohnlein/dsa-solver, schema version 1), which PyPTO's compiler exports.
#pragma once

#include "berth/model/problem_file.hpp"
#include "model/files/json_fields.hpp"

namespace berth::model {

// Reads `problem`, the document's member of that name. Ignores notes that do not constrain a plan (the objective,
// reasons, pypto_structure but for whole_slot_reuse). Throws input_error, also for members unknown to the schema's
// version 1. Berth has no equal of bank geometries, temporal exclusions and whole_slot_reuse, which it refuses.
[[nodiscard]] problem_file read_dsa_problem(const std::string& path, const json_value& problem,
                                            const std::vector<std::uint32_t>& lines);

}  // namespace berth::model
