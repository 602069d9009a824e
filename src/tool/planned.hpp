// Problems planned for viewers of the plan, and the text for people if there is none.
#pragma once

#include <optional>
#include <string>

#include "berth/model/problem_file.hpp"
#include "berth/plan/solve.hpp"
#include "tool/progress_line.hpp"
#include "tool/trace_input.hpp"

namespace berth::tool {

// Returns the facts of a plan, or of its stays, for pictures and reports. Contract: the plan has offsets.
[[nodiscard]] plan_facts facts_of(const model::problem_file& file, const plan::plan& answer);

// "buffer 'x' alone exceeds the capacity (8 B); every plan needs at least 16 B, the capacity is 4 B"
[[nodiscard]] std::string reason_of(const model::problem_file& file, const plan::plan& answer);

// Solves the problem. The plan claims to be optimal only if no note names memory that is not counted. Throws
// input_error.
[[nodiscard]] plan::plan plan_of(const model::problem_file& file, const plan::options& options);

// Thrown if a problem to be shown has no plan: the answer is no.
class no_plan : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Plans as `berth plan` does without options, at the largest values of its dimensions. Throws
// input_error and no_plan.
[[nodiscard]] plan_facts facts_planned(const model::problem_file& file, progress_line& line);

}  // namespace berth::tool
