// A plan as a file, in the format that the file's ending names.
#pragma once

#include <string>

#include "berth/model/problem_file.hpp"
#include "berth/plan/plan.hpp"

namespace berth::tool {

// Throws usage_error unless `out` ends in .json, .csv, .h or .html, or is "-". Throws it for a prefix without a header.
void require_plan_format(const std::string& out, const std::string& prefix);

// Returns what a header's names begin with where no prefix is given: the file's name without its ending.
[[nodiscard]] std::string prefix_of(const std::string& out);

// Writes a plan in the format of the ending of `out`: CSV, a picture with this title, or a header. Names of the header
// begin with `prefix`, or with the file's name if that is empty. JSON, also for "-", is `json`. Throws input_error.
void write_plan(const std::string& out, const std::string& prefix, const std::string& title,
                const model::problem_file& file, const plan::plan& answer, const std::string& json);

}  // namespace berth::tool
