// The picture of a plan of a problem in a file, for the command and for Python.
#pragma once

#include <vector>

#include "berth/model/problem_file.hpp"
#include "berth/plan/plan.hpp"
#include "berth/trace/picture.hpp"

namespace berth::model {

// Returns one a buffer, from its first tick to its last. Contract: the plan has offsets and is of the file's problem.
[[nodiscard]] std::vector<trace::rectangle> rectangles_of(const problem_file& file, const plan::plan& answer);

// Returns the picture with numbers of bytes as they are; the title is left to the caller. Contract: as above.
[[nodiscard]] trace::picture picture_of(const problem_file& file, const plan::plan& answer);

}  // namespace berth::model
