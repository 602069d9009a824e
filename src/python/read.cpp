#include "python/read.hpp"

#include <pybind11/stl.h>

#include "berth/model/builtin.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/program.hpp"
#include "model/fit.hpp"
#include "model/graph_problem.hpp"

namespace berth::python {

namespace {

model::description read_model(const std::string& path, const std::map<std::string, std::int64_t>& dims) {
  if (!path.starts_with("builtin:")) return model::read_onnx(path, dims);
  auto made = model::builtin(path);
  if (!made) refuse(path + ": there is no such built-in model");
  if (!dims.empty()) refuse(path + " has no dimension called '" + dims.begin()->first + "'");
  return *std::move(made);
}

}  // namespace

std::string path_of(const py::object& path) {
  const auto coded = py::module_::import("os").attr("fsencode")(path).cast<std::string>();
  if (coded.find('\0') != std::string::npos) refuse("path: it has a zero byte");  // whose rest no file's name has
  return coded;
}

problem read(const py::object& path, const std::map<std::string, std::int64_t>& dims) {
  const std::string name = path_of(path);
  const py::gil_scoped_release others_run;
  if (name.starts_with("builtin:") || name.ends_with(".onnx")) {
    const model::program p = model::lower(read_model(name, dims));
    return problem{model::problem_of_graph(name, p.graph, rules::host(), [&p](value_id v) { return p.graph[v].name; })};
  }
  if (!dims.empty()) refuse("dims: they are for models");
  return problem{model::read_problem(name)};
}

py::dict fit(const py::object& path, const py::object& memory, const py::dict& dims, const std::string& effort) {
  model::fit_question q{.path = path_of(path), .memory = to_bytes(memory, "memory")};
  q.options = options_of(effort, 0, std::nullopt, 1, false);
  // A copy: a value's own __len__ or __index__ cannot change it.
  const auto held = py::reinterpret_steal<py::dict>(PyDict_Copy(dims.ptr()));
  if (!held) throw py::error_already_set();
  for (const auto& [key, value] : held) {
    const auto name = key.cast<std::string>();
    if (!py::isinstance<py::sequence>(value)) {
      q.dimensions[name] = to_tick(value, name.c_str());
      continue;
    }
    if (py::len(value) != 2 || !q.dimension.empty()) refuse("dims: one pair of bounds, and a number for each other");
    const auto bounds = py::reinterpret_borrow<py::sequence>(value);
    q.dimension = name;
    q.least = to_tick(bounds[0], name.c_str());
    q.most = to_tick(bounds[1], name.c_str());
  }
  if (q.dimension.empty()) refuse("dims: which is to be as large as fits? {name: (lowest, highest)}");
  model::fit_answer answer;
  {
    const py::gil_scoped_release others_run;
    answer = model::fit(q);
  }
  using namespace py::literals;
  py::list tried;
  for (const model::fit_point& p : answer.tried) {
    tried.append(py::dict("value"_a = p.value, "fits"_a = p.fits, "total_bytes"_a = p.total,
                          "weights_bytes"_a = p.weights, "states_bytes"_a = p.states, "workspace_bytes"_a = p.workspace,
                          "activations_bytes"_a = p.activations, "rounding_bytes"_a = p.rounding,
                          "least_total_bytes"_a = p.least_total));
  }
  return py::dict("model"_a = q.path, "memory_bytes"_a = q.memory, "dimension"_a = q.dimension,
                  "value"_a = answer.value, "proved"_a = answer.proved, "tried"_a = tried);
}

}  // namespace berth::python
