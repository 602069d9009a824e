// berth.Plan, as Python sees it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <utility>

#include "berth/model/plan_file.hpp"
#include "berth/plan/evaluate.hpp"
#include "berth/trace/picture.hpp"
#include "model/plan_picture.hpp"
#include "python/solved.hpp"

namespace berth::python {

namespace {

// Offsets are below max_address, so that they are signed numbers as well: differences of them do not wrap.
const std::int64_t* offsets_of(const solved& s) {
  return reinterpret_cast<const std::int64_t*>(s.answer.offsets.data());
}

py::ssize_t count_of(const solved& s) {
  return static_cast<py::ssize_t>(s.answer.offsets.size());
}

py::buffer_info buffer_of(const solved& s) {
  return {const_cast<std::int64_t*>(offsets_of(s)), count_of(s), /*readonly=*/true};
}

// Returns a view of the offsets in place: the array holds the plan.
py::array array_of(const py::object& self) {
  const auto& s = self.cast<const solved&>();
  const py::array_t<std::int64_t> view{count_of(s), offsets_of(s), self};
  view.attr("flags").attr("writeable") = false;
  return view;
}

bytes offset_at(const solved& s, py::ssize_t i) {
  const auto& offsets = s.answer.offsets;
  const py::ssize_t count = count_of(s);
  if (i < -count || i >= count) throw py::index_error(s.answer.has_offsets() ? "no such buffer" : "it has no offsets");
  return offsets[static_cast<std::size_t>(i < 0 ? i + count : i)];
}

// Returns rows of name, lower, upper, offset and size, for pictures.
py::list boxes_of(const solved& s) {
  py::list rows;
  if (!s.answer.has_offsets()) return rows;
  for (const trace::rectangle& r : model::rectangles_of(*s.file, s.answer)) {
    rows.append(py::make_tuple(r.name, r.lower, r.upper, r.offset, r.size));
  }
  return rows;
}

std::vector<bytes> values_of(const solved& s, const py::kwargs& given) {
  const auto& dimensions = s.file->problem.dimensions;
  if (dimensions.empty()) refuse("at: the problem has no dimensions");
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

std::pair<bytes, std::vector<bytes>> evaluate(const solved& s, const py::kwargs& given) {
  const std::vector<bytes> values = values_of(s, given);
  if (s.answer.order.empty() && !s.file->problem.buffers.empty()) refuse("at: the plan has no order");
  std::vector<bytes> offsets(s.answer.order.size());
  const auto arena = plan::evaluate(s.file->problem, s.answer, values, offsets);
  if (!arena) refuse(arena.error().what);
  return {*arena, std::move(offsets)};
}

py::list stays_of(const solved& s) {
  py::list rows;
  for (const plan::stay& one : s.answer.stays) {
    rows.append(py::make_tuple(one.buffer, s.file->problem.memories[one.memory].name, one.live.lower, one.live.upper,
                               one.ready));
  }
  return rows;
}

py::list moves_of(const solved& s) {
  py::list rows;
  for (const plan::move& m : s.answer.moves) {
    rows.append(py::make_tuple(m.from, m.to, m.during.lower, m.during.upper, m.begin, m.done));
  }
  return rows;
}

}  // namespace

bytes arena_taken(const solved& s) {
  const plan::plan& a = s.answer;
  const plan::problem stays = a.stays.empty() ? plan::problem{} : plan::problem_of_stays(s.file->problem, a.stays);
  const plan::problem& p = a.stays.empty() ? s.file->problem : stays;
  std::map<std::pair<index, index>, bytes> ends;  // by memory and slab
  for (index i = 0; i < p.buffers.size(); ++i) {
    const auto end = checked_add(a.offsets[i], p.footprint(i));
    if (!end) refuse("buffer '" + p.buffers[i].name + "': its end exceeds 64 bits");
    bytes& highest = ends[{a.memory_of.empty() ? 0 : a.memory_of[i], a.slab_of.empty() ? 0 : a.slab_of[i]}];
    highest = std::max(highest, *end);
  }
  bytes taken = 0;
  for (const auto& [place, end] : ends) {
    const auto sum = checked_add(taken, end);
    if (!sum) refuse("the slabs' ends exceed 64 bits together");
    taken = *sum;
  }
  return taken;
}

std::string reason_of(const solved& s) {
  return std::string{s.answer.reason};
}

std::string to_html(const solved& s, const std::string& title) {
  if (!s.answer.has_offsets()) refuse("there is no plan to show: " + reason_of(s));
  trace::picture picture = model::picture_of(*s.file, s.answer);
  picture.title = title.empty() ? s.file->path : title;
  return trace::to_html(picture);
}

solved_pointer unpack_solved(file_pointer file, std::string_view packed) {
  auto made = std::make_shared<solved>();
  made->file = std::move(file);
  made->answer = model::unpack_plan(*made->file, packed, made->texts);
  return made;
}

void declare_plan(py::module_& m) {
  using py::arg;
  const auto value = [](auto field) { return [field](const solved& s) { return s.answer.*field; }; };
  py::class_<solved, solved_pointer>(m, "Plan", py::buffer_protocol(),
                                     "Offsets for every buffer of a problem, and what is proved about them.")
      .def_buffer(&buffer_of)
      .def("__len__", [](const solved& s) { return s.answer.offsets.size(); })
      .def("__getitem__", &offset_at, arg("buffer"))
      .def_property_readonly("offsets", &array_of,
                             "By buffer, from the base of its pool, as a numpy array that is not written to; empty "
                             "without a plan. memoryview(plan) is the same without numpy")
      .def_property_readonly("arena", value(&plan::plan::arena_bytes), "Bytes")
      .def_property_readonly("lower_bound", value(&plan::plan::lower_bound_bytes),
                             "Bytes that every plan needs: proved")
      .def_property_readonly("slabs", value(&plan::plan::slab_of))
      .def_property_readonly("work", value(&plan::plan::work), "Search nodes spent")
      .def_property_readonly("deadline_hit", value(&plan::plan::deadline_hit), "Or stopped: there may be better ones")
      .def_property_readonly("reuse_penalty", value(&plan::plan::reuse_penalty))
      .def_property_readonly("cost", value(&plan::plan::cost),
                             "With stays access + stall; else each buffer's bytes times the cost of its pool")
      .def_property_readonly("cost_bound", value(&plan::plan::cost_bound), "No plan costs less: proved")
      .def_property_readonly("access", value(&plan::plan::access), "Time of all uses")
      .def_property_readonly("stall", value(&plan::plan::stall), "Time waited for copies")
      .def_property_readonly("order", value(&plan::plan::order), "Of a problem with dimensions: buffers, from below")
      .def("at", &evaluate, "at(batch=4, seq=128): the arena at these values of the dimensions, and the offsets.")
      .def_property_readonly("stays", &stays_of,
                             "Of a problem with uses, steps or links: rows of buffer, pool, lower, upper and ready. "
                             "`offsets` has one number for each")
      .def_property_readonly("moves", &moves_of,
                             "Copies between stays: rows of source, target, start, end, begin and done")
      .def_property_readonly(
          "status", [](const solved& s) { return plan::name(s.answer.status); },
          "optimal, feasible, infeasible or unknown")
      .def_property_readonly("optimal", [](const solved& s) { return s.answer.optimal(); })
      .def_property_readonly("solver", [](const solved& s) { return std::string{s.answer.solver}; })
      .def_property_readonly("reason", &reason_of, "Why there are no offsets; empty where there are")
      .def("to_html", &to_html, arg("title") = "",
           "One self-contained page with the picture, as `berth view` makes it.")
      .def(
          "_packed",
          [](const solved& s, bool ordered) {
            if (!ordered) return py::bytes(model::pack(s.answer));
            return py::bytes(
                model::pack(model::renumbered(s.answer, model::inverse(model::in_its_own_order(*s.file).order))));
          },
          arg("ordered") = false)
      .def("_boxes", &boxes_of)
      .def("__copy__", [](const solved_pointer& s) { return s; })
      .def("__deepcopy__", [](const solved_pointer& s, const py::dict&) { return s; })
      .def(py::pickle(
          [](const solved& s) {
            return py::make_tuple(py::bytes(model::pack(*s.file)), py::bytes(model::pack(s.answer)));
          },
          [](const py::tuple& state) {
            if (state.size() != 2) refuse("packed plan: not a problem and a plan");
            auto made = unpack_solved(
                std::make_shared<model::problem_file>(model::unpack_problem(state[0].cast<std::string>())),
                state[1].cast<std::string>());
            model::require_valid(*made->file);
            if (made->answer.has_offsets() && arena_taken(*made) != made->answer.arena()) {
              refuse("packed plan: its arena is not what its offsets take");
            }
            return made;
          }))
      .def("__repr__", [](const solved& s) {
        return "<berth.Plan " + std::string{plan::name(s.answer.status)} + ", arena " +
               std::to_string(s.answer.arena_bytes) + ", lower bound " + std::to_string(s.answer.lower_bound_bytes) +
               ">";
      });
}

}  // namespace berth::python
