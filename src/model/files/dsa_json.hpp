// The structured problems of dsa-solver (tonibohnlein/dsa-solver, schema version 1), which PyPTO's compiler exports.
#pragma once

#include "berth/model/problem_file.hpp"
#include "model/files/json_fields.hpp"

namespace berth::model {

// `problem`: the document's member of that name. Its target's own notes (pypto_structure, objective, reasons) do not
// constrain a plan and are passed over. Throws input_error, also for bank geometries and temporal exclusions, which
// Berth has no equal of.
[[nodiscard]] problem_file read_dsa_problem(const std::string& path, const json_value& problem,
                                            const std::vector<std::uint32_t>& lines);

}  // namespace berth::model
