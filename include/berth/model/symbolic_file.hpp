// Plans of problems with dimensions, in files (docs/plan.md has the forms). The order is the plan. Another runtime goes
// through it from first to last, and puts each buffer on the highest end of its supports: these are the offsets.
#pragma once
#pragma GCC visibility push(default)

#include <string>
#include <string_view>

#include "berth/model/problem_file.hpp"
#include "berth/plan/symbolic.hpp"

namespace berth::model {

// Returns plan_json() at the largest values. Adds dimensions:[{name, least, most}], order:[id], and of each buffer
// alignment, size_formula and supports:[id]. `more` is as plan_json() takes it. Contract: file.symbolic; the plan is of
// the file's problem.
[[nodiscard]] std::string symbolic_plan_json(const problem_file& file, const plan::symbolic_plan& answer,
                                             double elapsed_ms, std::string_view more = "");

// Returns a C (C99, C++11) header: the bounds of the dimensions, every buffer's size as a macro of them, and its offset
// if that is constant. A function computes the offsets and the arena without allocating. Within the bounds, which it
// checks, nothing overflows. Names as in plan_header(). Contract: as above.
[[nodiscard]] std::string symbolic_plan_header(const problem_file& file, const plan::symbolic_plan& answer,
                                               std::string_view prefix = "berth");

// Reads the output of symbolic_plan_json(); `file` becomes stricter by its rules as in read_plan(). plan::verify()
// checks the plan. Throws input_error: not such a plan, or of other buffers. Contract: file.symbolic.
[[nodiscard]] plan::symbolic_plan read_symbolic_plan(const std::string& path, problem_file& file);

}  // namespace berth::model
#pragma GCC visibility pop
