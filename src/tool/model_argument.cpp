#include "tool/model_argument.hpp"

#include <optional>
#include <utility>

#include "berth/model/builtin.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/program.hpp"
#include "berth/op/kernels.hpp"
#include "model/file.hpp"
#include "model/graph_problem.hpp"
#include "tool/problem_argument.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

bool names_a_model(const std::string& argument) {
  return argument.starts_with("builtin:") || argument.ends_with(".onnx");
}

model::description read_model(const std::string& argument, const std::vector<std::string>& dims) {
  const model::dimensions said = dimensions_of(dims);
  if (!argument.starts_with("builtin:")) {
    if (argument.ends_with(".tflite")) {
      throw usage_error(argument + ": TensorFlow Lite models are planned (berth plan), not run; run takes ONNX");
    }
    return model::read_onnx(argument, said);
  }
  std::optional<model::description> d = model::builtin(argument);
  if (!d) {
    std::string known;
    for (const std::string& each : model::builtin_names()) known += " " + each;
    throw usage_error("no built-in model is called '" + argument + "'; there are:" + known);
  }
  if (!said.empty()) throw usage_error(argument + " has no dimension called '" + said.begin()->first + "'");
  return *std::move(d);
}

namespace {

model::shapes_graph as_it_runs(model::description d) {
  model::program p = model::lower(std::move(d));
  model::shapes_graph whole{std::move(p.graph), {}, {}, {}, {}};
  for (const value& v : whole.graph.values()) whole.names.push_back(v.name);
  whole.kernels = op::get_kernel_library().called();
  whole.weights = model::weights_of(whole.graph, [&whole](value_id v) { return whole.names[v.index]; });
  return whole;
}

}  // namespace

model::shapes_graph read_model_graph(const std::string& argument, const std::vector<std::string>& dims, bool runs) {
  if (argument.starts_with("builtin:")) return as_it_runs(read_model(argument, dims));
  return read_onnx_graph(argument, model::read_file(argument), runs, dims);
}

model::shapes_graph read_onnx_graph(const std::string& path, std::string_view file, bool runs,
                                    const std::vector<std::string>& dims) {
  const model::dimensions said = dimensions_of(dims);
  if (!runs) return model::read_onnx_shapes(path, file, said);
  std::string why;
  try {
    return as_it_runs(model::read_onnx(path, file, said));
  } catch (const model::input_error& e) {
    why = e.what();
  }
  model::shapes_graph whole = model::read_onnx_shapes(path, file, said);
  const std::string name = path == "-" ? "standard input" : path;
  if (why.starts_with(name + ": ")) why.erase(0, name.size() + 2);
  whole.notes.insert(whole.notes.begin(), "planned by its shapes alone, since it does not run here: " + why);
  return whole;
}

}  // namespace berth::tool
