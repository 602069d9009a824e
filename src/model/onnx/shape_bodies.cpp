// Nodes with graphs inside: their results are those of the graphs. A node's workspace is the memory that the largest of
// them needs while it runs.
#include <algorithm>
#include <cstring>

#include "berth/graph/liveness.hpp"
#include "berth/model/input_error.hpp"
#include "berth/plan/solve.hpp"
#include "model/files/text.hpp"
#include "model/onnx/parts.hpp"
#include "model/onnx/shapes_reader.hpp"
#include "op/shapes.hpp"

namespace berth::model {

namespace {

const wire::graph* graph_of(const wire::node& n, std::string_view name) {
  for (const auto& a : n.attributes) {
    if (a.name == name && !a.graphs.empty()) return &a.graphs.front();
  }
  return nullptr;
}

const wire::graph& need_graph(const wire::node& n, const char* name) {
  const wire::graph* g = graph_of(n, name);
  if (g == nullptr) op::refuse(std::string{"it has no "} + name);
  return *g;
}

// Returns the names that a graph inside a node reads of the graphs around it.
std::set<std::string> read_from_outside(const wire::graph& g) {
  std::set<std::string> names;
  for (const auto& n : g.nodes) {
    names.insert(n.inputs.begin(), n.inputs.end());
    add_captured(n, names);
  }
  for (const auto& v : g.outputs) names.insert(v.name);
  for (const auto& v : g.inputs) names.erase(v.name);
  for (const auto& t : g.initializers) names.erase(t.name);
  for (const auto& n : g.nodes) {
    for (const std::string& made : n.outputs) names.erase(made);
  }
  return names;
}

std::int64_t entry_of(const node& n, const char* name, std::size_t i, std::size_t count) {
  const shape all = op::attribute_or(n.attributes, name, shape{});
  if (!all.empty() && all.size() != count) op::refuse(std::string{name} + " has not one entry each");
  return all.empty() ? 0 : all[i];
}

void check_carried(const known& from, const known& to, const std::string& name) {
  if (to.type == from.type && to.s == from.s) return;
  op::refuse("it carries on " + text_of(from) + " as " + text_of(to) + " for '" + name + "'");
}

}  // namespace

const known& shapes_reader::known_input(const node& n, std::size_t i) const {
  const auto found = known_.find(n.inputs[i]);
  if (found == known_.end()) op::refuse("input '" + n.inputs[i] + "' is no tensor that is known");
  return found->second;
}

shapes_reader::shapes_reader(shapes_reader& outer, const wire::graph& g)
    : said_{outer.said_}, own_room_{m_}, room_{outer.room_}, outermost_{outer.outermost_} {
  m_.source = outer.m_.source;
  m_.opset = outer.m_.opset;
  for (const std::string& name : read_from_outside(g)) {
    const auto found = outer.known_.find(name);
    if (found == outer.known_.end()) continue;
    const auto constant = outer.m_.constants.find(name);
    if (constant != outer.m_.constants.end()) m_.constants.insert(*constant);
    keep_constant(name, found->second, nullptr);  // the graph around it holds the memory
  }
}

// Returns the type that a graph inside the node declares for one of the node's results; 0 where none does.
std::int64_t shapes_reader::type_inside(const wire::node& from, std::size_t result) {
  if (from.op == "Loop") ++result;  // its condition comes first
  for (const auto& a : from.attributes) {
    for (const auto& g : a.graphs) {
      if (result < g.outputs.size() && g.outputs[result].type.element != 0) return g.outputs[result].type.element;
    }
  }
  return 0;
}

shapes_reader::inside shapes_reader::ask_bodies(const node& n, const wire::node& from) {
  inside made;
  try {
    if (n.op == "If") return ask_if(n, from);
    if (n.op == "Loop") return ask_loop(n, from);
    if (n.op == "Scan") return ask_scan(n, from);
    made.why = "graphs inside " + n.op + " are not read here";
  } catch (const contradiction_error&) {
    throw;
  } catch (const input_error& e) {
    made.why = e.what();
    if (made.why.starts_with(m_.source + ": ")) made.why.erase(0, m_.source.size() + 2);
  } catch (const op::refusal& e) {
    made.why = e.what();
  }
  return made;
}

// Reads a graph inside a node, whose inputs are of these types. Its results from `kept` on lie in the node's own.
shapes_reader::body shapes_reader::read_body(const wire::graph& g, const std::vector<known>& inputs, std::size_t kept) {
  if (g.inputs.size() != inputs.size()) {
    op::refuse("its body takes " + std::to_string(g.inputs.size()) + " inputs, not " + std::to_string(inputs.size()));
  }
  shapes_reader reader{*this, g};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const wire::value_info& v = g.inputs[i];
    check_alike(v.type, inputs[i], "input '" + v.name + "' of a sub-graph ");
    reader.add_value(name_of(m_.source, v.name), inputs[i]);
  }
  reader.read_graph(g);
  body made;
  std::vector<std::string> names;
  for (const auto& v : g.outputs) {
    const auto found = reader.known_.find(v.name);
    if (found == reader.known_.end()) reader.fail("output '" + v.name + "' of a sub-graph is computed by no node");
    made.results.push_back(found->second);
    names.push_back(v.name);
    if (const auto at = reader.values_.find(v.name); at != reader.values_.end()) reader.out_.graph.output(at->second);
  }
  made.workspace = reader.needed_inside(kept, names);
  return made;
}

// Returns the bytes of the arena of this graph without its results from `kept` on.
bytes shapes_reader::needed_inside(std::size_t kept, const std::vector<std::string>& results) const {
  if (const graph_fault& fault = out_.graph.fault(); !fault.ok()) fail(fault.text);
  liveness live = find_lifetimes(out_.graph.structure(), rules::host());
  for (std::size_t i = kept; i < results.size(); ++i) {
    const auto found = values_.find(results[i]);
    if (found == values_.end()) continue;
    const value& root = out_.graph[out_.graph[found->second].root];
    if (root.kind == value_kind::input) continue;  // the node's result is a copy
    const std::uint32_t buffer = live.buffer_of[out_.graph[found->second].root.index];
    if (buffer != no_buffer) live.problem.buffers[buffer].size = 0;
  }
  const auto planned = plan::solve(live.problem, {.work = plan::effort::fast});
  if (!planned || !planned->has_offsets()) fail("a sub-graph has no plan");
  return planned->arena();
}

// Reads the branch that is taken where the condition is known, else takes the larger of both. Models choose a branch by
// the size of an input, so that at a given size the other one may contradict its declared shapes.
shapes_reader::inside shapes_reader::ask_if(const node& n, const wire::node& from) {
  inside made;
  const auto condition = n.inputs.empty() ? m_.constants.end() : m_.constants.find(n.inputs[0]);
  const bool is_known = condition != m_.constants.end() && condition->second.data.size() == 1;
  std::optional<contradiction_error> impossible;
  for (const char* which : {"then_branch", "else_branch"}) {
    const bool taken = is_known && (condition->second.data[0] != std::byte{0}) == (which[0] == 't');
    const wire::graph& g = need_graph(from, which);
    if (is_known && !taken) continue;
    body branch;
    try {
      branch = read_body(g, {}, 0);
    } catch (const type_contradiction&) {
      throw;
    } catch (const contradiction_error& e) {
      if (impossible) throw;
      impossible = e;
      continue;
    }
    if (branch.results.size() < n.outputs.size()) op::refuse(std::string{"its "} + which + " gives less");
    branch.results.resize(n.outputs.size());
    made.workspace = std::max(made.workspace, branch.workspace);
    if (made.results.empty()) {
      made.results = std::move(branch.results);
      continue;
    }
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      known &one = made.results[i], &other = branch.results[i];
      if (one.type != other.type) {
        throw type_contradiction(m_.source, one_line(called(n) + ": its branches give " + text_of(one) + " and " +
                                                     text_of(other) + " for '" + n.outputs[i] + "'"));
      }
      if (one.s == other.s) continue;
      note(called(n) + ": its branches give " + text_of(one) + " and " + text_of(other) + " for '" + n.outputs[i] +
           "', and the larger is planned");
      if (op::count_of(other.s) > op::count_of(one.s)) one = std::move(other);
    }
  }
  if (impossible && made.results.empty()) throw *impossible;
  if (impossible) {
    const std::string why = std::string{impossible->what()}.substr(impossible->file().size() + 2);
    note(called(n) + ": of its branches one is planned, since the other contradicts these sizes: " + why);
  }
  return made;
}

// Reads the body once: a carried value has one shape in all rounds, and inputs lie beside results.
shapes_reader::inside shapes_reader::ask_loop(const node& n, const wire::node& from) {
  const wire::graph& g = need_graph(from, "body");
  std::vector<known> inputs{{{}, wire::int64}, {{}, wire::boolean}};
  for (std::size_t i = 2; i < n.inputs.size(); ++i) {
    inputs.push_back(known_input(n, i));
  }
  body once = read_body(g, inputs, 1);
  const std::size_t carried = inputs.size() - 2;
  if (once.results.size() < 1 + std::max(carried, n.outputs.size())) op::refuse("its body gives less");
  inside made{{}, once.workspace, {}};
  for (std::size_t k = 0; k < n.outputs.size(); ++k) {
    known result = once.results[1 + k];
    if (k < carried) {
      check_carried(inputs[2 + k], result, n.outputs[k]);
    } else if (!n.outputs[k].empty()) {
      result.s.insert(result.s.begin(), rounds_of(n, n.outputs[k]));
    }
    made.results.push_back(std::move(result));
  }
  return made;
}

// Returns the most rounds of a Loop: by its input, else by the file's or the caller's size of its collected results.
std::int64_t shapes_reader::rounds_of(const node& n, const std::string& collected) {
  const auto most = n.inputs.empty() ? m_.constants.end() : m_.constants.find(n.inputs[0]);
  if (most != m_.constants.end() && most->second.data.size() == sizeof(std::int64_t)) {
    std::int64_t rounds = 0;
    std::memcpy(&rounds, most->second.data.data(), sizeof rounds);
    return std::max<std::int64_t>(rounds, 0);
  }
  const auto declared = declared_.find(collected);
  const bool ranked = declared != declared_.end() && !declared->second->shape.empty();
  const wire::dimension* dim = ranked ? &declared->second->shape.front() : nullptr;
  const auto size = said_.find(collected, 0, dim);
  if (!size) {
    op::refuse("how often it runs is not known; " +
               said_dimensions::how_to_say(collected, 0, dim == nullptr ? "" : dim->name));
  }
  return *size;
}

shapes_reader::inside shapes_reader::ask_scan(const node& n, const wire::node& from) {
  if (m_.opset < 9) op::refuse("its kind of before opset 9 is not supported");
  const wire::graph& g = need_graph(from, "body");
  const auto scans = op::attribute_or<std::int64_t>(n.attributes, "num_scan_inputs", 0);
  if (scans < 1 || scans > std::ssize(n.inputs)) op::refuse("num_scan_inputs is out of range");
  const std::size_t carried = n.inputs.size() - static_cast<std::size_t>(scans);
  std::vector<known> inputs;
  std::int64_t rounds = 0;
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    inputs.push_back(known_input(n, i));
    if (i < carried) continue;
    shape& s = inputs.back().s;
    const std::int64_t said = entry_of(n, "scan_input_axes", i - carried, static_cast<std::size_t>(scans));
    const std::size_t axis = op::axis_of(said, std::ssize(s));
    rounds = s[axis];
    s.erase(s.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  body once = read_body(g, inputs, 0);
  if (once.results.size() < std::max(carried, n.outputs.size())) op::refuse("its body gives less");
  inside made{{}, once.workspace, {}};
  const std::size_t collected = once.results.size() - carried;
  for (std::size_t k = 0; k < n.outputs.size(); ++k) {
    known result = once.results[k];
    if (k < carried) {
      check_carried(inputs[k], result, n.outputs[k]);
    } else {
      const std::int64_t said = entry_of(n, "scan_output_axes", k - carried, collected);
      const std::size_t axis = op::axis_of(said, std::ssize(result.s) + 1);
      result.s.insert(result.s.begin() + static_cast<std::ptrdiff_t>(axis), rounds);
    }
    made.results.push_back(std::move(result));
  }
  return made;
}

}  // namespace berth::model
