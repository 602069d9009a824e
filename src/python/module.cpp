// The Python module `berth`: planning problems, plans and their verification. docs/python.md is its page.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/bound.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "berth/rules/placement.hpp"

namespace py = pybind11;

namespace berth::python {
namespace {

using plan::index;
using range = std::pair<plan::tick, plan::tick>;

// ValueError is what a reader's input_error becomes too.
[[noreturn]] void refuse(const std::string& what) {
  throw py::value_error(what);
}

// Python's integers have no end: one outside 64 bits is refused by name, not by a signature that did not match.
bytes to_bytes(const py::int_& number, const char* field) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() == nullptr) return value;
  PyErr_Clear();
  refuse(std::string{field} + ": " + py::str(py::handle{number}).cast<std::string>() + " is not a number of bytes");
}

std::optional<bytes> to_bytes(const std::optional<py::int_>& number, const char* field) {
  if (!number) return std::nullopt;
  return to_bytes(*number, field);
}

// A problem as a file would hold it, so that what is wrong with one is said in the same words.
class problem {
 public:
  explicit problem(model::problem_file file) : file_{std::move(file)} {
    for (const plan::buffer& b : file_.problem.buffers) ids_.insert(b.name);
  }

  static problem create(const py::int_& alignment, const py::int_& granularity, const std::optional<py::int_>& capacity,
                        const std::optional<py::int_>& max_slab, const std::optional<std::string>& rules) {
    rules::placement asked{.start_alignment = to_bytes(alignment, "alignment"),
                           .size_granularity = to_bytes(granularity, "granularity")};
    if (rules) {
      const auto found = rules::find(*rules);
      if (!found) refuse("rules: there are none named '" + *rules + "'");
      const auto both = rules::strictest(asked, *found);
      if (!both) refuse("alignment, granularity: too large together with the rules");
      asked = *both;
    }
    model::problem_file file{.path = "problem", .problem = plan::problem{asked}};
    file.problem.capacity = to_bytes(capacity, "capacity");
    file.problem.max_slab = to_bytes(max_slab, "max_slab");
    return problem{std::move(file)};
  }

  index add(const py::int_& size, std::optional<range> live, const std::optional<std::vector<range>>& lifetimes,
            std::optional<std::string> id, const std::optional<py::int_>& alignment,
            const std::optional<py::int_>& offset, const std::optional<py::int_>& hint,
            std::optional<index> alias_group, const std::vector<std::string>& pools) {
    plan::problem& p = file_.problem;
    plan::buffer b;
    b.name = id ? *std::move(id) : std::to_string(p.buffers.size());
    b.size = to_bytes(size, "size");
    if (live && lifetimes) refuse("buffer '" + b.name + "': live or lifetimes, not both");
    if (live) b.live = {live->first, live->second};
    if (lifetimes) {
      for (const range& r : *lifetimes) b.lifetimes.push_back({r.first, r.second});
    }
    if (alignment) b.alignment = to_bytes(*alignment, "alignment");
    b.offset = to_bytes(offset, "offset");
    b.hint = to_bytes(hint, "hint");
    b.alias_group = alias_group;
    for (const std::string& name : pools) b.memories.push_back(memory(name));
    if (!ids_.insert(b.name).second) refuse("buffer '" + b.name + "' is there already");
    return p.add(std::move(b));
  }

  index add_pool(std::string name, const std::optional<py::int_>& capacity, const py::int_& alignment,
                 const std::vector<std::pair<bytes, bytes>>& reserved, double cost) {
    plan::problem& p = file_.problem;
    for (const plan::memory& m : p.memories) {
      if (m.name == name) refuse("pool '" + name + "' is there already");
    }
    p.memories.push_back({.name = std::move(name),
                          .capacity = to_bytes(capacity, "capacity"),
                          .alignment = to_bytes(alignment, "alignment"),
                          .reserved = reserved,
                          .cost = cost});
    return static_cast<index>(p.memories.size() - 1);
  }

  void set_conflicts(const std::optional<std::vector<std::pair<index, index>>>& pairs) {
    std::vector<plan::pair> conflicts;
    for (const auto& [a, b] : pairs.value_or(std::vector<std::pair<index, index>>{})) {
      conflicts.push_back(checked(a, b));
    }
    if (pairs) {
      file_.problem.conflicts = std::move(conflicts);
    } else {
      file_.problem.conflicts.reset();
    }
  }

  void separate(index a, index b) { file_.problem.separations.push_back(checked(a, b)); }

  void penalize(index a, index b, double weight) {
    const plan::pair both = checked(a, b);
    file_.problem.reuse_penalties.push_back({both.a, both.b, weight});
  }

  plan::plan solve(const std::string& effort, std::uint64_t work, std::optional<double> deadline) const {
    plan::options o;
    if (effort == "fast") {
      o.work = plan::effort::fast;
    } else if (effort == "best") {
      o.work = plan::effort::best;
    } else if (effort != "normal") {
      refuse("effort: '" + effort + "' is none of fast, normal, best");
    }
    if (deadline && (!std::isfinite(*deadline) || *deadline < 0)) refuse("deadline: not a number of seconds");
    o.node_limit = work;
    o.deadline_s = deadline;
    const py::gil_scoped_release others_run;
    model::require_valid(file_);
    return plan::solve(file_.problem, o).value();
  }

  // A plan that something else made, with its arena counted.
  plan::plan plan_of(std::vector<bytes> offsets, const std::vector<std::string>& pools,
                     std::vector<index> slabs) const {
    model::require_valid(file_);
    const plan::problem& p = file_.problem;
    if (offsets.size() != p.buffers.size()) refuse("offsets: not one for each buffer");
    if (pools.size() != (p.memories.size() > 1 ? offsets.size() : 0)) refuse("pools: not one for each buffer");
    if (slabs.size() != (p.max_slab ? offsets.size() : 0)) refuse("slabs: not one for each buffer");
    plan::plan made;
    made.status = plan::status::feasible;
    made.solver = "given";
    for (const std::string& name : pools) made.memory_of.push_back(memory(name));
    std::map<std::pair<index, index>, bytes> ends;  // by pool and slab
    for (index i = 0; i < offsets.size(); ++i) {
      if (p.buffers[i].size == 0) continue;
      bytes& end = ends[{pools.empty() ? 0 : made.memory_of[i], slabs.empty() ? 0 : slabs[i]}];
      const auto own = checked_add(offsets[i], p.footprint(i));
      if (!own) refuse("buffer '" + p.buffers[i].name + "': its end exceeds 64 bits");
      end = std::max(end, *own);
    }
    for (const auto& [place, end] : ends) made.arena_bytes += end;
    made.offsets = std::move(offsets);
    made.slab_of = std::move(slabs);
    return made;
  }

  std::optional<std::string> verify(const plan::plan& answer) const {
    model::require_valid(file_);
    const auto& buffers = file_.problem.buffers;
    const auto broken = plan::verify(file_.problem, answer);
    if (!broken) return std::nullopt;
    std::string text = broken->rule;
    if (broken->a < buffers.size()) text += ": '" + buffers[broken->a].name + "'";
    if (broken->b != broken->a && broken->b < buffers.size()) text += " and '" + buffers[broken->b].name + "'";
    return text;
  }

  std::string format(const plan::plan& answer, const std::string& form) const {
    if (const auto broken = verify(answer)) refuse(*broken);
    if (form == "json") return model::plan_json(file_, answer, 0);
    if (form == "csv") return model::plan_csv(file_, answer);
    if (form == "h") return model::plan_header(file_, answer);
    refuse("form: '" + form + "' is none of json, csv, h");
  }

  bytes max_live() const {
    model::require_valid(file_);
    return plan::max_live(file_.problem);
  }

  std::vector<std::string> ids() const {
    std::vector<std::string> names;
    for (const plan::buffer& b : file_.problem.buffers) names.push_back(b.name);
    return names;
  }

  std::vector<std::string> pools_of(const plan::plan& answer) const {
    std::vector<std::string> names;
    for (const index m : answer.memory_of) names.push_back(file_.problem.memories.at(m).name);
    return names;
  }

  std::size_t size() const { return file_.problem.buffers.size(); }

 private:
  plan::pair checked(index a, index b) const {
    if (std::max(a, b) >= file_.problem.buffers.size()) {
      refuse("there is no buffer " + std::to_string(std::max(a, b)));
    }
    return {a, b};
  }

  index memory(const std::string& name) const {
    const auto& all = file_.problem.memories;
    const auto found = std::find_if(all.begin(), all.end(), [&](const plan::memory& m) { return m.name == name; });
    if (found == all.end()) refuse("there is no pool '" + name + "'");
    return static_cast<index>(found - all.begin());
  }

  model::problem_file file_;
  std::unordered_set<std::string> ids_;
};

std::string reason_of(const plan::plan& p) {
  if (p.has_offsets()) return "";
  return p.reason.empty() ? "no plan fits the capacity" : std::string{p.reason};
}

void declare(py::module_& m) {
  using py::arg;
  py::class_<plan::plan>(m, "Plan", "Offsets for every buffer of a problem, and what is proved about them.")
      .def_readonly("offsets", &plan::plan::offsets, "By buffer, from the base of its pool; empty without a plan")
      .def_readonly("arena", &plan::plan::arena_bytes, "Bytes")
      .def_readonly("lower_bound", &plan::plan::lower_bound_bytes, "Bytes that every plan needs: proved")
      .def_readonly("slabs", &plan::plan::slab_of)
      .def_readonly("work", &plan::plan::work, "Search nodes spent")
      .def_readonly("deadline_hit", &plan::plan::deadline_hit)
      .def_readonly("reuse_penalty", &plan::plan::reuse_penalty)
      .def_property_readonly(
          "status", [](const plan::plan& p) { return plan::name(p.status); },
          "optimal, feasible, infeasible or unknown")
      .def_property_readonly("optimal", &plan::plan::optimal)
      .def_property_readonly("solver", [](const plan::plan& p) { return std::string{p.solver}; })
      .def_property_readonly("reason", &reason_of, "Why there are no offsets; empty where there are")
      .def("__repr__", [](const plan::plan& p) {
        return "<berth.Plan " + std::string{plan::name(p.status)} + ", arena " + std::to_string(p.arena_bytes) +
               ", lower bound " + std::to_string(p.lower_bound_bytes) + ">";
      });

  py::class_<problem>(m, "Problem", "Buffers with lifetimes and sizes, and the rules under which they share memory.")
      .def(py::init(&problem::create), py::kw_only(), arg("alignment") = 1, arg("granularity") = 1,
           arg("capacity") = py::none(), arg("max_slab") = py::none(), arg("rules") = py::none())
      .def("add", &problem::add, arg("size"), arg("live") = py::none(), py::kw_only(), arg("lifetimes") = py::none(),
           arg("id") = py::none(), arg("alignment") = py::none(), arg("offset") = py::none(), arg("hint") = py::none(),
           arg("alias_group") = py::none(), arg("pools") = std::vector<std::string>{},
           "Adds a buffer, alive in [live[0], live[1]), and returns its index.")
      .def("add_pool", &problem::add_pool, arg("id"), py::kw_only(), arg("capacity") = py::none(), arg("alignment") = 1,
           arg("reserved") = std::vector<std::pair<bytes, bytes>>{}, arg("cost") = 0.0,
           "Adds one of several memories and returns its index.")
      .def("set_conflicts", &problem::set_conflicts, arg("pairs"), "Pairs of buffers, in place of their lifetimes.")
      .def("separate", &problem::separate, arg("a"), arg("b"), "Never at common addresses, at whatever time.")
      .def("penalize", &problem::penalize, arg("a"), arg("b"), arg("weight") = 1.0,
           "What is paid where a and b share bytes: lowered once the arena is decided.")
      .def("solve", &problem::solve, py::kw_only(), arg("effort") = "normal", arg("work") = 0,
           arg("deadline") = py::none(), "Plans. Other threads of Python run meanwhile.")
      .def("plan", &problem::plan_of, arg("offsets"), py::kw_only(), arg("pools") = std::vector<std::string>{},
           arg("slabs") = std::vector<index>{}, "A plan that something else made, to be verified or written.")
      .def("verify", &problem::verify, arg("plan"), "None, or what the plan violates. Shares no code with solve.")
      .def("format", &problem::format, arg("plan"), arg("form") = "json", "The plan as json, csv or h (C header).")
      .def("pools_of", &problem::pools_of, arg("plan"), "By buffer, the id of its pool.")
      .def_property_readonly("ids", &problem::ids)
      .def_property_readonly("max_live", &problem::max_live, "The most bytes alive at once.")
      .def("__len__", &problem::size);

  m.def(
      "read",
      [](const std::string& path) {
        model::problem_file file = model::read_problem(path);
        if (file.symbolic) refuse(path + ": dimensions are not for Python: berth plan plans their order");
        if (file.traffic) refuse(path + ": transfers, steps and uses are not for Python: berth plan plans the moves");
        return problem{std::move(file)};
      },
      arg("path"), "Reads a planning problem in any format that `berth plan` takes, without dimensions or transfers.");
  m.def("rules", [] {
    std::vector<std::string> names;
    for (const rules::placement& r : rules::all()) names.emplace_back(r.name);
    return names;
  });
}

}  // namespace
}  // namespace berth::python

PYBIND11_MODULE(berth, m) {
  m.doc() = "Plans where tensors live in memory.";
  m.attr("__version__") = BERTH_VERSION;
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const berth::model::input_error& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    }
  });
  berth::python::declare(m);
}
