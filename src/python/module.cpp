// The extension module berth._core: planning problems, plans and their verification. docs/python.md is the package's
// page.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "berth/rules/placement.hpp"
#include "model/kept_plan.hpp"
#include "python/problem.hpp"
#include "python/read.hpp"
#include "python/tensor.hpp"

namespace berth::python {
namespace {

using py::arg;

solved_pointer solve_problem(const problem& p, const std::string& effort, std::uint64_t work,
                             std::optional<double> deadline, unsigned threads, bool penalty_first,
                             const py::object& progress, bool best_on_interrupt) {
  return solve(p.file(), options_of(effort, work, deadline, threads, penalty_first), progress, best_on_interrupt);
}

std::pair<solved_pointer, bool> unpacked(const problem& p, const std::string& packed, bool prove, bool ordered) {
  auto made = unpack_solved(p.file(), packed);
  if (ordered) made->answer = model::renumbered(made->answer, model::in_its_own_order(*p.file()).order);
  const bool proved = model::judge(*made->file, made->answer, prove);
  return {std::move(made), proved};
}

void declare_problem(py::module_& m) {
  py::class_<problem>(m, "Problem", "Buffers with lifetimes and sizes, and the rules under which they share memory.")
      .def(py::init(&problem::create), py::kw_only(), arg("alignment") = 1, arg("granularity") = 1,
           arg("capacity") = py::none(), arg("max_slab") = py::none(), arg("rules") = py::none())
      .def_static("from_arrays", &from_arrays, arg("size"), arg("lower"), arg("upper"), py::kw_only(),
                  arg("alignments") = py::none(), arg("offset") = py::none(), arg("ids") = py::none(),
                  arg("alignment") = 1, arg("granularity") = 1, arg("capacity") = py::none(),
                  arg("max_slab") = py::none(), arg("rules") = py::none(),
                  "One buffer an item of arrays of integers (numpy's or any others), alive in [lower, upper).")
      .def("add", &problem::add, arg("size"), arg("live") = py::none(), py::kw_only(), arg("lifetimes") = py::none(),
           arg("id") = py::none(), arg("alignment") = py::none(), arg("offset") = py::none(), arg("hint") = py::none(),
           arg("alias_group") = py::none(), arg("pools") = std::vector<std::string>{},
           "Adds a buffer, alive in [live[0], live[1]), and returns its index.")
      .def("add_dimension", &problem::add_dimension, arg("name"), arg("least"), arg("most"),
           "A number that is known at run time only; sizes may then be texts such as '4*batch*seq + 256'.")
      .def("add_pool", &problem::add_pool, arg("id"), py::kw_only(), arg("capacity") = py::none(), arg("alignment") = 1,
           arg("reserved") = py::tuple{}, arg("cost") = 0.0, "Adds one of several memories and returns its index.")
      .def("add_use", &problem::add_use, arg("buffer"), arg("at"), arg("touched"), py::kw_only(), arg("write") = false,
           arg("pool") = py::none(),
           "The buffer is read or written at a tick: so many bytes, in this pool or any. With uses, steps or links "
           "buffers may change their pool while they live.")
      .def("add_step", &problem::add_step, arg("at"), arg("duration"), "The program's work at a tick takes this long.")
      .def("add_link", &problem::add_link, arg("source"), arg("target"), arg("bandwidth"), arg("latency") = 0.0,
           "Copies go from one pool to another: bytes a time unit, and time units a copy.")
      .def("set_conflicts", &problem::set_conflicts, arg("pairs"), "Pairs of buffers, in place of their lifetimes.")
      .def("separate", &problem::separate, arg("a"), arg("b"), "Never at common addresses, at whatever time.")
      .def("penalize", &problem::penalize, arg("a"), arg("b"), arg("weight") = 1.0,
           "What is paid where a and b share bytes: lowered once the arena is decided.")
      .def("solve", &solve_problem, py::kw_only(), arg("effort") = "normal", arg("work") = 0,
           arg("deadline") = py::none(), arg("threads") = 1, arg("penalty_first") = false, arg("progress") = py::none(),
           arg("best_on_interrupt") = false, "Plans. Other threads of Python run meanwhile, and Ctrl-C is heard.")
      .def("plan", &problem::plan_of, arg("offsets"), py::kw_only(), arg("pools") = std::vector<std::string>{},
           arg("slabs") = std::vector<index>{}, "A plan that something else made, to be verified or written.")
      .def("verify", &problem::verify, arg("plan"), "None, or what the plan violates. Shares no code with solve.")
      .def("format", &problem::format, arg("plan"), arg("form") = "json", "The plan as json, csv or h (C header).")
      .def("pools_of", &problem::pools_of, arg("plan"), "By buffer, the id of its pool.")
      .def_property_readonly("ids", &problem::ids)
      .def_property_readonly("max_live", &problem::max_live, "The most bytes alive at once.")
      .def("__len__", &problem::size)
      .def(
          "_packed", [](const problem& p, bool names) { return py::bytes(model::pack(*p.file(), names)); },
          arg("names") = true)
      .def("_key", [](const problem& p) { return py::bytes(model::in_its_own_order(*p.file()).packed); })
      .def_static("_of_packed", [](const std::string& packed) { return problem{model::unpack_problem(packed)}; })
      .def("_unpacked", &unpacked, arg("plan"), arg("prove") = true, arg("ordered") = false,
           "A plan, verified, and whether it proves that none is better; without `prove` nobody looks. `ordered`: its "
           "buffers are in the order of _key().")
      .def("_require_valid", [](const problem& p) { model::require_valid(*p.file()); })
      .def("__copy__", [](const problem& p) { return p; })
      .def("__deepcopy__", [](const problem& p, const py::dict&) { return p; })
      .def("__repr__", [](const problem& p) { return "<berth.Problem of " + std::to_string(p.size()) + " buffers>"; })
      .def(py::pickle([](const problem& p) { return py::make_tuple(py::bytes(model::pack(*p.file()))); },
                      [](const py::tuple& state) {
                        if (state.size() != 1) refuse("packed problem: not one");
                        return problem{model::unpack_problem(state[0].cast<std::string>())};
                      }));
}

}  // namespace
}  // namespace berth::python

PYBIND11_MODULE(_core, m) {
  namespace own = berth::python;
  m.attr("__version__") = BERTH_VERSION;
  m.attr("_revision") = berth::model::planner_revision;
  own::declare_errors(m);
  own::declare_plan(m);
  own::declare_problem(m);
  own::declare_graph(m);
  own::declare_tensor(m);
  own::declare_numpy_memory(m);
  own::declare_pool(m);
  m.def("read", &own::read, own::arg("path"), own::arg("dims") = std::map<std::string, std::int64_t>{},
        "Reads a planning problem in any format that `berth plan` takes, or the problem of a model: FILE.onnx with the "
        "dimensions that it leaves open, builtin:NAME.");
  m.def("fit", &own::fit, own::arg("path"), own::py::kw_only(), own::arg("memory"), own::arg("dims"),
        own::arg("effort") = "normal",
        "The largest value of a dimension with which a model, or a problem with dimensions, fits the memory.");
  m.def("rules", [] {
    std::vector<std::string> names;
    for (const berth::rules::placement& r : berth::rules::all()) names.emplace_back(r.name);
    return names;
  });
}
