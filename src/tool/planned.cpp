#include "tool/planned.hpp"

#include "berth/model/input_error.hpp"
#include "berth/model/memories.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/plan/solve.hpp"
#include "model/plan_picture.hpp"
#include "tool/units.hpp"

namespace berth::tool {

std::string reason_of(const model::problem_file& file, const plan::plan& answer) {
  if (!file.problem.memories.empty()) {
    if (std::string why = model::reason_without_plan(file); !why.empty()) return why;
  }
  std::string text{answer.reason};
  if (text.rfind("buffer", 0) == 0 && answer.culprit < file.problem.buffers.size()) {
    text = "buffer '" + file.problem.buffers[answer.culprit].name + "'" + text.substr(6);
  }
  if (answer.number != 0) text += " (" + human_exactly(answer.number) + ")";
  if (answer.lower_bound() != 0) text += "; every plan needs at least " + human_exactly(answer.lower_bound());
  if (file.problem.capacity) text += ", the capacity is " + human_exactly(*file.problem.capacity);
  return text;
}

plan_facts facts_of(const model::problem_file& file, const plan::plan& answer) {
  return {.arena = answer.arena(),
          .lower_bound = answer.lower_bound(),
          .no_reuse = model::no_reuse_bytes(answer.stays.empty() ? file : model::as_buffers(file, answer).file),
          .optimal = answer.optimal(),
          .solver = std::string{answer.solver},
          .buffers = model::rectangles_of(file, answer),
          .kernels = file.kernels};
}

plan::plan plan_of(const model::problem_file& file, const plan::options& options) {
  if (file.problem.has_traffic() && !model::reason_without_plan(file).empty()) {
    return {.status = plan::status::infeasible};
  }
  auto answer = plan::solve(file.problem, options);
  if (!answer) throw model::input_error(file.path, answer.error().what);
  if (!file.counts_all && answer->optimal()) answer->status = plan::status::feasible;
  return *std::move(answer);
}

plan_facts facts_planned(const model::problem_file& file, progress_line& line) {
  model::require_valid(file);
  const plan::plan answer = plan_of(file, {.watch = line.watch()});
  if (!answer.has_offsets()) throw no_plan(file.path + ": " + name(answer.status) + ": " + reason_of(file, answer));
  return facts_of(file, answer);
}

}  // namespace berth::tool
