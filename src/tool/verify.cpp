// berth verify PROBLEM PLAN: an independent check.
#include "berth/plan/verify.hpp"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

int verify_file(const std::string& problem_path, const std::string& plan_path, bool as_json) {
  const model::problem_file file = model::read_problem(problem_path);
  model::require_valid(file);
  const plan::plan answer = model::read_plan(plan_path, file);
  const auto found = plan::verify(file.problem, answer);
  nlohmann::json report{{"ok", !found}, {"arena_bytes", answer.arena()}, {"buffers", file.problem.buffers.size()}};
  std::string text = "ok";
  if (found) {
    const auto& buffers = file.problem.buffers;
    text = answer.offsets.empty() && !buffers.empty() ? "a buffer is not placed" : found->rule;
    if (!answer.offsets.empty() && !buffers.empty()) {
      text += ": '" + buffers[found->a].name + "'";
      if (found->b != found->a) text += " and '" + buffers[found->b].name + "'";
      text += " (" + std::to_string(found->number) + ")";
      report["a"] = buffers[found->a].name;
      report["b"] = buffers[found->b].name;
      report["number"] = found->number;
    }
    report["violation"] = text;
  }
  if (as_json) text = report.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::puts(text.c_str());
  return found ? answer_is_no : done;
}

}  // namespace

std::function<int()> declare_verify(CLI::App& app) {
  struct verify_call {
    std::string problem, plan;
    bool json = false;
  };
  auto call = std::make_shared<verify_call>();
  app.add_option("PROBLEM", call->problem, "As `berth plan` reads it")->required();
  app.add_option("PLAN", call->plan, "A plan of it: JSON or CSV")->required();
  app.add_flag("--json", call->json, "One JSON object on standard output");
  return [call] { return verify_file(call->problem, call->plan, call->json); };
}

}  // namespace berth::tool
