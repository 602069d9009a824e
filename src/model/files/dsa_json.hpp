// The structured problems of dsa-solver (tonibohnlein/dsa-solver, schema version 1), which PyPTO's compiler exports.
#pragma once

#include "berth/model/problem_file.hpp"
#include "model/files/json_fields.hpp"

namespace berth::model {

// `problem`: the document's member of that name. Notes that do not constrain a plan (the objective, reasons,
// pypto_structure but for whole_slot_reuse) are passed over. Throws input_error, also for bank geometries, temporal
// exclusions and whole_slot_reuse, which Berth has no equal of, and for what the schema's version 1 does not know.
[[nodiscard]] problem_file read_dsa_problem(const std::string& path, const json_value& problem,
                                            const std::vector<std::uint32_t>& lines);

}  // namespace berth::model
