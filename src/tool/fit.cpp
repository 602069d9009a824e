// berth fit MODEL --memory BYTES --dim NAME=LO:HI: the largest value that fits, and the users of the memory.
#include "model/fit.hpp"

#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "berth/model/input_error.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

struct fit_call {
  std::string file;
  std::optional<bytes> memory;
  std::vector<std::string> dims;
  std::string effort = "normal";
  bool json = false;
};

std::int64_t number_of(std::string_view text, const std::string& option) {
  std::int64_t n = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (code != std::errc{} || stop != text.data() + text.size() || n < 1) {
    throw usage_error("--dim " + option + ": expected NAME=N or NAME=LO:HI, of whole numbers from 1 on");
  }
  return n;
}

model::fit_question question_of(const fit_call& call) {
  model::fit_question q{.path = call.file, .memory = *call.memory};
  q.options.work = call.effort == "fast"   ? plan::effort::fast
                   : call.effort == "best" ? plan::effort::best
                                           : plan::effort::normal;
  for (const std::string& text : call.dims) {
    const std::size_t equals = text.find('='), colon = text.find(':', equals == std::string::npos ? 0 : equals);
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || name.empty()) throw usage_error("--dim " + text + ": expected NAME=LO:HI");
    const std::string_view value = std::string_view{text}.substr(equals + 1);
    if (colon == std::string::npos) {
      if (!q.dimensions.emplace(name, number_of(value, text)).second) {
        throw usage_error("--dim " + text + ": '" + name + "' has a value already");
      }
      continue;
    }
    if (!q.dimension.empty()) throw usage_error("--dim " + text + ": one range only; give the others a value");
    q.dimension = name;
    q.least = number_of(value.substr(0, colon - equals - 1), text);
    q.most = number_of(value.substr(colon - equals), text);
  }
  if (q.dimension.empty()) throw usage_error("--dim NAME=LO:HI: which dimension is to be as large as fits?");
  return q;
}

nlohmann::ordered_json json_of(const model::fit_point& p) {
  return {{"value", p.value},
          {"fits", p.fits},
          {"total_bytes", p.total},
          {"weights_bytes", p.weights},
          {"states_bytes", p.states},
          {"workspace_bytes", p.workspace},
          {"activations_bytes", p.activations},
          {"rounding_bytes", p.rounding},
          {"least_total_bytes", p.least_total}};
}

void print_table(const model::fit_question& q, const model::fit_answer& answer) {
  std::printf("%12s %14s %14s %14s %14s %14s\n", printable(q.dimension).c_str(), "weights", "states", "workspace",
              "activations", "total");
  for (const model::fit_point& p : answer.tried) {
    std::printf("%12lld %14s %14s %14s %14s %14s  %s\n", static_cast<long long>(p.value), human(p.weights).c_str(),
                human(p.states).c_str(), human(p.workspace).c_str(), human(p.activations).c_str(),
                human(p.total).c_str(), p.fits ? "fits" : "does not fit");
  }
  const char* const why = answer.proved ? "proved" : "no plan was found for more";
  if (answer.value) {
    std::printf("%s: %s is at most %lld in %s (%s)\n", printable(q.path).c_str(), printable(q.dimension).c_str(),
                static_cast<long long>(*answer.value), human_exactly(q.memory).c_str(),
                *answer.value == q.most ? "the range ends there" : why);
  } else {
    std::printf("%s: not even %s=%lld fits %s (%s)\n", printable(q.path).c_str(), printable(q.dimension).c_str(),
                static_cast<long long>(q.least), human_exactly(q.memory).c_str(), why);
  }
}

int fit(const fit_call& call) {
  const model::fit_question q = question_of(call);
  const model::fit_answer answer = model::fit(q);
  if (call.json) {
    nlohmann::ordered_json tried = nlohmann::ordered_json::array();
    for (const model::fit_point& p : answer.tried) tried.push_back(json_of(p));
    print_json(nlohmann::ordered_json{{"model", q.path},
                                      {"memory_bytes", q.memory},
                                      {"dimension", q.dimension},
                                      {"value", or_null(answer.value)},
                                      {"proved", answer.proved},
                                      {"tried", tried}});
  } else {
    print_table(q, answer);
  }
  return answer.value ? done : answer_is_no;
}

}  // namespace

std::function<int()> declare_fit(CLI::App& app) {
  auto call = std::make_shared<fit_call>();
  app.add_option("MODEL", call->file, "FILE.onnx, FILE.tflite, or a problem with dimensions (berth-problem/1)")
      ->required();
  add_bytes_option(app, "--memory", call->memory, "What there is for weights, states, activations and workspaces")
      ->required();
  app.add_option("--dim", call->dims, "The dimension that is to be as large as fits, NAME=LO:HI; the others: NAME=N")
      ->type_name("NAME=LO:HI")
      ->allow_extra_args(false)
      ->required();
  app.add_option("--effort", call->effort, "How long to search for a smaller arena at each value")
      ->check(CLI::IsMember({"fast", "normal", "best"}))
      ->capture_default_str();
  app.add_flag("--json", call->json, "One JSON object on standard output");
  return [call] { return fit(*call); };
}

}  // namespace berth::tool
