// Plans of problems with dimensions, in files (docs/plan.md has the forms). The order is the plan: another runtime that
// goes through it from the first buffer to the last, and puts each on the highest end of its supports, has the offsets.
#pragma once
#pragma GCC visibility push(default)

#include <string>
#include <string_view>

#include "berth/model/problem_file.hpp"
#include "berth/plan/symbolic.hpp"

namespace berth::model {

// plan_json() at the largest values, and besides: dimensions:[{name, least, most}], order:[id], and of each buffer
// alignment, size_formula and supports:[id]. Contract: file.symbolic; the plan is of the file's problem.
[[nodiscard]] std::string symbolic_plan_json(const problem_file& file, const plan::symbolic_plan& answer,
                                             double elapsed_ms);

// A C (C99, C++11) header: the bounds of the dimensions, every buffer's size as a macro of them, its offset where that
// is the same for all values, and a function that computes the offsets and the arena without allocating. Within the
// bounds, which it checks, nothing overflows. Names as in plan_header(). Contract: as above.
[[nodiscard]] std::string symbolic_plan_header(const problem_file& file, const plan::symbolic_plan& answer,
                                               std::string_view prefix = "berth");

// Reads what symbolic_plan_json() wrote; `file` becomes stricter by its rules as in read_plan(). plan::verify() says
// whether it is a plan. Throws input_error: not such a plan, or of other buffers. Contract: file.symbolic.
[[nodiscard]] plan::symbolic_plan read_symbolic_plan(const std::string& path, problem_file& file);

}  // namespace berth::model
#pragma GCC visibility pop
