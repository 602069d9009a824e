// berth verify PROBLEM PLAN: an independent check.
#include "berth/plan/verify.hpp"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "model/packed.hpp"
#include "tool/command_line.hpp"
#include "tool/dimensions.hpp"
#include "tool/output.hpp"
#include "tool/plan_proof.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/progress_line.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

// Returns why the plan's lower bound does not hold, or nothing.
std::string objection_to_bound(const plan::problem& p, const plan::plan& answer,
                               const std::vector<plan::refutation>& proved) {
  const auto found = plan::verify_bound(p, answer.lower_bound(), answer.proof, proved);
  if (!found) return {};
  std::string text = found->rule;
  if (found->a) text += ": '" + p.buffers[*found->a].name + "'";
  if (found->b) text += " and '" + p.buffers[*found->b].name + "'";
  return text + " (argument " + std::to_string(found->argument + 1) + ", " + std::to_string(found->number) +
         " bytes are proved)";
}

void print(const nlohmann::json& report, const std::string& text, bool as_json) {
  if (as_json) print_json(report);
  if (!as_json) std::puts(printable(text).c_str());
}

int verify_infeasible(const model::problem_file& file, const plan::plan& answer, bool as_json) {
  const bool proved = model::is_refuted(file.problem, answer);
  const auto capacity = file.problem.capacity;
  const std::string fits = "no plan fits " + (capacity ? std::to_string(*capacity) + " bytes" : "the memories");
  print({{"ok", proved}, {"status", "infeasible"}, {"bound_ok", proved}, {"buffers", file.problem.buffers.size()}},
        (proved ? "ok; proved: " : "the certificate does not prove that ") + fits, as_json);
  return proved ? done : answer_is_no;
}

struct verify_call {
  std::vector<std::string> files;  // the problem's, then the plan
  std::vector<std::string> dims;   // name=N, of a model
  std::vector<std::string> at;     // name=N, of a problem with dimensions
  bool pipeline = false;
  std::string proof;  // the log of a search, with `bound`
  bool bound = false;
  bool json = false;
};

int verify_file(const verify_call& call) {
  if (call.files.size() < 2) throw usage_error("PROBLEM and PLAN are required; see berth verify --help");
  const std::string& plan_path = call.files.back();
  std::optional<progress_line> line{std::in_place, !call.json};
  line->stage("reading and checking");
  model::problem_file file =
      read_problem_arguments({call.files.begin(), call.files.end() - 1}, call.pipeline, call.dims);
  model::require_valid(file);
  const bool moves = file.problem.has_traffic();
  if (moves && call.bound) throw usage_error("--bound: a plan with moves has no certificate");
  if (moves && !call.at.empty()) throw usage_error("--at: a problem with transfers has no dimensions");
  if (!call.at.empty()) file = problem_at(file, values_of(file, call.at));
  const std::size_t notes = file.notes.size();
  const plan::plan answer = model::read_plan(plan_path, file);
  if (call.bound && answer.status == plan::status::infeasible) {
    line.reset();
    return verify_infeasible(file, answer, call.json);
  }
  const auto found = plan::verify(file.problem, answer);
  const auto& buffers = file.problem.buffers;
  nlohmann::json report{{"ok", !found}, {"arena_bytes", answer.arena()}, {"buffers", buffers.size()}};
  if (moves) report["moves"] = answer.moves.size();
  std::string text = "ok";
  if (found) {
    const bool placed = moves || !answer.offsets.empty() || buffers.empty();
    text = placed ? found->rule : "a buffer is not placed";
    if (placed && found->a < buffers.size()) {
      text += ": '" + buffers[found->a].name + "'";
      report["a"] = buffers[found->a].name;
    }
    if (placed && !moves && !buffers.empty()) {
      if (found->b != found->a) text += " and '" + buffers[found->b].name + "'";
      text += " (" + std::to_string(found->number) + ")";
      report["b"] = buffers[found->b].name;
      report["number"] = found->number;
    }
    report["violation"] = text;
  }
  bool ok = !found;
  if (call.bound) {
    std::vector<plan::refutation> proved;
    if (!call.proof.empty()) proved = read_proof(call.proof, file.problem);
    const std::string objection = objection_to_bound(file.problem, answer, proved);
    report["lower_bound"] = answer.lower_bound();
    report["bound_ok"] = objection.empty();
    if (!objection.empty()) {
      report["bound_violation"] = objection;
      if (ok) text = "the lower bound of " + std::to_string(answer.lower_bound()) + ": " + objection;
    }
    if (ok && answer.lower_bound() == 0 && !file.problem.buffers.empty()) text += "; the plan claims no lower bound";
    ok = ok && objection.empty();
    if (ok && !call.proof.empty() && answer.lower_bound() != 0)
      text += "; proved: every plan needs " + std::to_string(answer.lower_bound()) + " bytes";
    report["ok"] = ok;
  }
  line.reset();
  if (file.notes.size() > notes) {
    report["note"] = file.notes.back();
    text += "; " + file.notes.back();
  }
  print(report, text, call.json);
  return ok ? done : answer_is_no;
}

}  // namespace

std::function<int()> declare_verify(CLI::App& app) {
  auto call = std::make_shared<verify_call>();
  app.add_option(
         "PROBLEM", call->files,
         "The problem, a file or a model as `berth plan` takes it, and a plan of it: JSON or CSV; either may be -,\n"
         "standard input")
      ->required()
      ->type_name("and PLAN");
  app.add_flag("--pipeline", call->pipeline,
               "The problem is that of several graphs, as `berth plan --pipeline` takes them");
  CLI::Option* const bound = app.add_flag(
      "--bound", call->bound,
      "Also checks the certificate of the plan's lower bound, or that there is no plan, without any search");
  app.add_option(
         "--proof", call->proof,
         "With --bound: the log that `berth plan --proof` wrote of what a search proved; a wrong line ends the\n"
         "check with exit status 2")
      ->check(not_empty)
      ->needs(bound)
      ->type_name("FILE");
  add_dim_option(app, call->dims);
  add_at_option(app, call->at,
                "Of a problem with dimensions: PLAN is one at these values; without it, the order of PLAN is proved\n"
                "for all values");
  app.add_flag("--json", call->json, "One JSON object on standard output");
  return [call] { return verify_file(*call); };
}

}  // namespace berth::tool
