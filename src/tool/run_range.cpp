#include "tool/run_range.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "berth/model/input_error.hpp"
#include "berth/model/program.hpp"
#include "berth/model/runner.hpp"
#include "berth/op/device_operators.hpp"
#include "berth/op/operator.hpp"
#include "berth/pool/pool.hpp"
#include "tool/model_argument.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/running.hpp"
#include "tool/units.hpp"
#include "tool/value_of.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

void print_runs(const nlohmann::ordered_json& j) {
  const auto size = [](const nlohmann::ordered_json& n) { return human(n.get<bytes>()); };
  const auto text = [](const nlohmann::ordered_json& t) { return printable(t.get<std::string>()); };
  std::printf("%s, %s from %lld to %lld: one arena of %s, planned once\n", text(j["model"]).c_str(),
              text(j["dimension"]).c_str(), j["least"].get<long long>(), j["most"].get<long long>(),
              size(j["reserved_bytes"]).c_str());
  std::printf("  %12s %14s   %s\n", text(j["dimension"]).c_str(), "arena", "outputs");
  for (const auto& run : j["runs"]) {
    std::string outputs;
    for (const auto& each : run["outputs"]) {
      outputs += "  " + each["name"].get<std::string>() + " " + each["checksum"].get<std::string>();
    }
    std::printf("  %12lld %14s %s\n", run["value"].get<long long>(), size(run["arena_bytes"]).c_str(),
                printable(outputs).c_str());
  }
}

}  // namespace

int run_range(const std::string& model, const std::string& device, const std::vector<std::string>& dims,
              const model::dimension_range& range, bool json) {
  const berth::device opened = of_device(device, berth::device::open(device));
  const auto by = of_device(device, op::device_server(opened));
  const auto program_at = [&](const std::vector<std::int64_t>& at) {
    return model::lower(read_model(model, with_values(dims, {range}, at)), by);
  };
  const model::open_model open = model::open_by_fit(
      model, {range}, [&](const std::vector<std::int64_t>& at) { return std::move(program_at(at).graph); });
  const auto refuse = [&](const graph_fault& why, const error& e) {
    throw model::input_error(model, why.ok() ? e.what : why.text);
  };
  pool memory{opened};
  stream s{opened};
  graph_fault why;
  // A model whose sizes are other than planned is an error, never planned again.
  arena_options options;
  options.on_change = change_policy::fail;
  auto reserved = arena::reserve(open.graph, memory, s, options, &why);
  if (!reserved) refuse(why, reserved.error());
  nlohmann::ordered_json j{{"model", model},
                           {"dimension", range.name},
                           {"least", range.least},
                           {"most", range.most},
                           {"reserved_bytes", reserved->size()},
                           {"larger_sizes", open.larger},
                           {"runs", nlohmann::ordered_json::array()}};
  for (std::int64_t value = range.least; value <= range.most; ++value) {
    model::program p = program_at({value});
    contents inputs;
    for (const auto& port : p.inputs) inputs.push_back(made_up(port, inputs.size()));
    const dimension_value at[] = {{open.graph.open().dimensions[0].name, static_cast<bytes>(value)}};
    auto ran = model::runner::create(std::move(p), *reserved, open.graph, at, memory, s, &why);
    if (!ran) refuse(why, ran.error());
    run_once(*ran, inputs, s);
    j["runs"].push_back(
        {{"value", value}, {"arena_bytes", reserved->get_plan().arena()}, {"outputs", to_json(outputs_of(*ran, s))}});
  }
  json ? print_json(j) : print_runs(j);
  return done;
}

}  // namespace berth::tool
