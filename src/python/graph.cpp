// berth.Graph: values and nodes, for users without lifetimes. Values are numbers, in the order they were made.
#include "berth/graph/graph.hpp"

#include <pybind11/stl.h>

#include "berth/graph/liveness.hpp"
#include "berth/rules/placement.hpp"
#include "model/graph_problem.hpp"
#include "python/problem.hpp"

namespace berth::python {

namespace {

using ids = std::vector<std::uint32_t>;

// Returns bytes without a shape: two of one size have the same layout.
tensor_type opaque(py::handle size) {
  const bytes n = to_bytes(size, "size");
  if (n > plan::max_address) refuse("size: " + std::to_string(n) + " is above 2^62");
  return {.shape = {static_cast<std::int64_t>(n)}, .type = element::u8, .size = n};
}

std::vector<value_id> values_of(const ids& numbers) {
  std::vector<value_id> values;
  for (const std::uint32_t n : numbers) values.push_back({n});
  return values;
}

void require_sound(const graph& g) {
  const graph_fault fault = validate(g);
  if (!fault.ok()) refuse("graph: " + fault.text);
}

// One size makes one value, a list of them a list.
py::object add_node(graph& g, const std::string& name, const ids& inputs, const py::object& size, const ids& in_place,
                    const py::object& workspace, std::uint32_t stream, const std::optional<std::uint32_t>& into) {
  const node_options options{.in_place = in_place, .workspace = to_bytes(workspace, "workspace"), .stream = stream};
  if (into) {
    if (!size.is_none()) refuse("node '" + name + "': a size, or into what it writes, not both");
    return py::int_(g.node_into(name, values_of(inputs), {*into}, options).index);
  }
  if (size.is_none()) refuse("node '" + name + "': neither a size nor into what it writes");
  if (PyIndex_Check(size.ptr()) != 0) return py::int_(g.node(name, values_of(inputs), opaque(size), options).index);
  std::vector<tensor_type> types;
  for (const py::handle each : size) types.push_back(opaque(each));
  py::list made;
  for (const value_id v : g.node_n(name, values_of(inputs), types, options)) made.append(v.index);
  return made;
}

rules::placement rules_of(const std::string& name) {
  const auto found = rules::find(name);
  if (!found) refuse("rules: there are none named '" + name + "'");
  return *found;
}

problem problem_of(const graph& g, const std::string& rules) {
  require_sound(g);
  return problem{
      model::problem_of_graph("graph", g, rules_of(rules), [&g](value_id v) -> std::string { return g[v].name; })};
}

// Returns the buffers in problem_of_graph()'s order: those of lifetimes, then the states.
std::vector<std::optional<std::uint32_t>> buffers_of(const graph& g) {
  require_sound(g);
  const liveness live = find_lifetimes(g.structure(), rules::host());
  auto state = static_cast<std::uint32_t>(live.problem.buffers.size());
  std::vector<std::optional<std::uint32_t>> of(g.values().size());
  for (std::uint32_t v = 0; v < of.size(); ++v) {
    const value& it = g.values()[v];
    if (it.kind == value_kind::state) {
      of[v] = state++;
    } else if (it.kind == value_kind::view) {
      of[v] = of[it.root.index];
    } else if (live.buffer_of[v] != no_buffer) {
      of[v] = live.buffer_of[v];
    }
  }
  return of;
}

}  // namespace

void declare_graph(py::module_& m) {
  using py::arg;
  const auto leaf = [](value_id (graph::*add)(std::string, tensor_type)) {
    return [add](graph& g, std::string name, const py::object& size) {
      return (g.*add)(std::move(name), opaque(size)).index;
    };
  };
  py::class_<graph>(m, "Graph", "Values, views and nodes in the order they run: lifetimes follow from it.")
      .def(py::init<>())
      .def("input", leaf(&graph::input), arg("name"), arg("size"), "In the arena from before the first node.")
      .def("constant", leaf(&graph::constant), arg("name"), arg("size"), "Outside the arena.")
      .def("external", leaf(&graph::external), arg("name"), arg("size"), "Outside the arena, and may be written into.")
      .def("state", leaf(&graph::state), arg("name"), arg("size"), "In the arena, alive throughout.")
      .def("node", &add_node, arg("name"), arg("inputs"), arg("size") = py::none(), py::kw_only(),
           arg("in_place") = ids{}, arg("workspace") = 0, arg("stream") = 0, arg("into") = py::none(),
           "Its result, or a list of them where `size` is one. `in_place`: places in `inputs` whose memory the result "
           "may take over. `into`: a value whose bytes it writes.")
      .def(
          "view",
          [](graph& g, std::uint32_t of, const py::object& size, const py::object& offset) {
            return g.view({of}, opaque(size), to_bytes(offset, "offset")).index;
          },
          arg("of"), arg("size"), arg("offset") = 0)
      .def(
          "output", [](graph& g, std::uint32_t v) { g.output({v}); }, arg("value"), "It survives the last node.")
      .def(
          "separate", [](graph& g, std::uint32_t a, std::uint32_t b) { g.separate({a}, {b}); }, arg("a"), arg("b"))
      .def("problem", &problem_of, arg("rules") = "host")
      .def("buffers", &buffers_of, "By value, its buffer in problem(), views with their roots; None outside the arena.")
      .def("__len__", [](const graph& g) { return g.values().size(); });
}

}  // namespace berth::python
