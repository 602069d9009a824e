#include "python/read.hpp"

#include <pybind11/stl.h>

#ifdef BERTH_PYTHON_MODELS
#include "berth/model/builtin.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/program.hpp"
#include "model/graph_problem.hpp"
#endif

namespace berth::python {

namespace {

std::string path_of(const py::object& path) {
  const auto coded = py::module_::import("os").attr("fsencode")(path);
  return coded.cast<std::string>();
}

#ifdef BERTH_PYTHON_MODELS
model::description read_model(const std::string& path, const std::map<std::string, std::int64_t>& dims) {
  if (!path.starts_with("builtin:")) return model::read_onnx(path, dims);
  auto made = model::builtin(path);
  if (!made) refuse(path + ": there is no such built-in model");
  if (!dims.empty()) refuse(path + " has no dimension called '" + dims.begin()->first + "'");
  return *std::move(made);
}
#endif

}  // namespace

problem read(const py::object& path, const std::map<std::string, std::int64_t>& dims) {
  const std::string name = path_of(path);
  const py::gil_scoped_release others_run;
#ifdef BERTH_PYTHON_MODELS
  if (name.starts_with("builtin:") || name.ends_with(".onnx")) {
    const model::program p = model::lower(read_model(name, dims));
    return problem{model::problem_of_graph(name, p.graph, rules::host(), [&p](value_id v) { return p.graph[v].name; })};
  }
#endif
  if (!dims.empty()) refuse("dims: they are for models");
  model::problem_file file = model::read_problem(name);
  if (file.traffic) refuse(name + ": transfers, steps and uses are not for Python: berth plan plans the moves");
  return problem{std::move(file)};
}

}  // namespace berth::python
