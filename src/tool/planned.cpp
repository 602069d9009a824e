#include "tool/planned.hpp"

#include "berth/model/input_error.hpp"
#include "berth/model/memories.hpp"
#include "berth/model/moves_file.hpp"
#include "berth/plan/moves.hpp"
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
          .no_reuse = model::no_reuse_bytes(file),
          .optimal = answer.optimal(),
          .solver = std::string{answer.solver},
          .buffers = model::rectangles_of(file, answer),
          .kernels = file.kernels};
}

void claim_only_what_counts(const model::problem_file& file, plan::plan& answer) {
  if (!file.counts_all && answer.optimal()) answer.status = plan::status::feasible;
}

plan_facts facts_planned(const model::problem_file& file, progress_line& line) {
  model::require_valid(file);
  const plan::options options{.watch = line.watch()};
  const auto planned = [&](const model::problem_file& of, plan::plan answer) {
    claim_only_what_counts(file, answer);
    if (!answer.has_offsets()) {
      throw no_plan(file.path + ": " + name(answer.status) + ": " + reason_of(of, answer));
    }
    return facts_of(of, answer);
  };
  if (file.traffic) {
    auto answer = plan::solve_moves(file.problem, *file.traffic, options);
    if (!answer) throw model::input_error(file.path, answer.error().what);
    return planned(answer->layout.has_offsets() ? model::file_of_stays(file, *answer) : file, answer->layout);
  }
  auto answer = plan::solve(file.problem, options);
  if (!answer) throw model::input_error(file.path, answer.error().what);
  return planned(file, std::move(*answer));
}

void hold_to_capacity(plan::plan& answer, const std::optional<bytes>& capacity) {
  if (!capacity || answer.arena() <= *capacity) return;
  answer.offsets.clear();
  answer.status = answer.lower_bound() > *capacity ? plan::status::infeasible : plan::status::unknown;
  answer.reason = "the order found needs more than the capacity";
  answer.number = answer.arena();
}

}  // namespace berth::tool
