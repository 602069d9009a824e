// Plans for all values of dimensions, and plans with moves between memories.
#include "berth/plan/symbolic.hpp"

#include <pybind11/stl.h>

#include "berth/model/input_error.hpp"
#include "berth/model/moves_file.hpp"
#include "berth/model/symbolic_file.hpp"
#include "berth/plan/moves.hpp"
#include "python/read.hpp"

namespace berth::python {

namespace {

struct symbolic {
  file_pointer file;
  plan::symbolic_plan answer;
};

symbolic solve_for_all(const problem& p, const std::string& effort, std::uint64_t work,
                       std::optional<double> deadline) {
  const file_pointer file = p.file();
  if (!file->symbolic) refuse("the problem has no dimensions: add_dimension(), or a file that names some");
  const plan::options o = options_of(effort, work, deadline, 1, false);
  const py::gil_scoped_release others_run;
  model::require_valid(*file);
  auto answer = plan::solve_symbolic(file->problem, *file->symbolic, o);
  if (!answer) refuse(answer.error().what);
  return {file, *std::move(answer)};
}

std::vector<bytes> values_of(const symbolic& s, const py::kwargs& given) {
  const auto& dimensions = s.file->symbolic->dimensions;
  std::vector<bytes> values;
  for (const plan::dimension& d : dimensions) {
    if (!given.contains(d.name)) refuse("at: no value for '" + d.name + "'");
    values.push_back(to_bytes(given[d.name.c_str()], d.name.c_str()));
    if (values.back() < d.least || values.back() > d.most) {
      refuse("at: " + d.name + " = " + std::to_string(values.back()) + " is not from " + std::to_string(d.least) +
             " to " + std::to_string(d.most));
    }
  }
  if (given.size() != dimensions.size()) refuse("at: a value for a dimension that is not there");
  return values;
}

std::pair<bytes, std::vector<bytes>> evaluate(const symbolic& s, const py::kwargs& given) {
  const std::vector<bytes> values = values_of(s, given);
  std::vector<bytes> offsets(s.answer.order.size());
  const auto arena = plan::evaluate(s.file->problem, *s.file->symbolic, s.answer, values, offsets);
  if (!arena) refuse(arena.error().what);
  return {*arena, std::move(offsets)};
}

std::string format(const symbolic& s, const std::string& form) {
  if (form == "json") return model::symbolic_plan_json(*s.file, s.answer, 0);
  if (form == "h") return model::symbolic_plan_header(*s.file, s.answer);
  refuse("form: '" + form + "' is none of json, h");
}

solved_pointer at_most(const symbolic& s) {
  auto made = std::make_shared<solved>();
  made->file = s.file;
  made->answer = s.answer.most;
  return made;
}

// Returns the dict that `berth plan FILE --json` prints.
py::object plan_moves(const py::object& path, const std::string& effort, std::uint64_t work,
                      std::optional<double> deadline) {
  const std::string name = path_of(path);
  const plan::options o = options_of(effort, work, deadline, 1, false);
  std::string text;
  {
    const py::gil_scoped_release others_run;
    const model::problem_file file = model::read_problem(name);
    if (!file.traffic) refuse(name + ": it has no transfers, steps or uses: read() and solve() plan it");
    model::require_valid(file);
    const auto answer = plan::solve_moves(file.problem, *file.traffic, o);
    if (!answer) throw model::input_error(name, answer.error().what);
    if (!answer->layout.has_offsets()) {
      throw model::input_error(name, std::string{plan::name(answer->layout.status)} + ": no plan was found");
    }
    if (const auto broken = plan::verify(file.problem, *file.traffic, *answer)) expects(false, broken->rule);
    text = model::moves_json(file, *answer, 0);
  }
  return py::module_::import("json").attr("loads")(text);
}

}  // namespace

void declare_symbolic(py::module_& m) {
  using py::arg;
  py::class_<symbolic>(m, "SymbolicPlan", "An order of buffers, from which offsets follow at every value.")
      .def_property_readonly("plan", &at_most, "Where every dimension is at its most: no value needs a larger arena.")
      .def_property_readonly("order", [](const symbolic& s) { return s.answer.order; })
      .def("at", &evaluate, "at(batch=4, seq=128): the arena, and by buffer its offset.")
      .def("format", &format, arg("form") = "json", "As json or h (C header), which another runtime goes through.");
  m.def("solve_symbolic", &solve_for_all, arg("problem"), py::kw_only(), arg("effort") = "normal", arg("work") = 0,
        arg("deadline") = py::none(), "Plans a problem with dimensions once for all of their values.");
  m.def("plan_moves", &plan_moves, arg("path"), py::kw_only(), arg("effort") = "normal", arg("work") = 0,
        arg("deadline") = py::none(),
        "Plans a problem file with transfers, steps or uses: buffers that change their memory while they live, as the "
        "dict that `berth plan FILE --json` prints.");
}

}  // namespace berth::python
