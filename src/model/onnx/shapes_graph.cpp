// Graphs of ONNX files by their shapes alone: no weights, no kernels, any element type, operators of any kind.

#include <algorithm>
#include <string_view>

#include "berth/model/input_error.hpp"
#include "model/file.hpp"
#include "model/files/text.hpp"
#include "model/onnx/fold.hpp"
#include "model/onnx/operators.hpp"
#include "model/onnx/parse.hpp"
#include "model/onnx/parts.hpp"
#include "model/onnx/prepare.hpp"
#include "model/onnx/shapes_reader.hpp"
#include "op/request.hpp"

namespace berth::model {

namespace {

constexpr std::int64_t newest_ir = 13;
// Constants up to this size are read: shapes, axes, scales. Weights are not.
constexpr std::size_t most_elements_read = std::size_t{1} << 12;

bool has_sub_graphs(const wire::node& n) {
  return std::any_of(n.attributes.begin(), n.attributes.end(), [](const auto& a) { return !a.graphs.empty(); });
}

bool is_view(const node& n) {
  const std::set<std::string_view> views{"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
  return views.contains(n.op);
}

}  // namespace

shapes_reader::shapes_reader(const std::string& path, said_dimensions& said)
    : said_{said}, own_room_{m_}, room_{own_room_}, outermost_{out_} {
  m_.source = path;
}

void shapes_reader::fail(const std::string& what) const {
  throw input_error(m_.source, one_line(what));
}

void shapes_reader::note(const std::string& what) {
  outermost_.notes.push_back(one_line(what));
}

shapes_graph shapes_reader::read(std::string_view file) {
  wire::model m = wire::parse(m_.source, file);
  read_versions(m);
  put_functions_in_place(m, m_.source, file.size());
  sort_nodes(m, m_.source);
  const wire::graph& g = *m.graph;
  read_graph(g);
  for (const auto& v : g.outputs) {
    const auto found = values_.find(v.name);
    if (found != values_.end()) out_.graph.output(found->second);
    if (found == values_.end() && !constants_.contains(v.name)) {
      fail("output '" + name_of(m_.source, v.name) + "' is computed by no node");
    }
  }
  add_before(out_, g);
  for (std::uint32_t& n : out_.node_of) n = g.nodes[n].in_file;
  if (const std::string idle = said_.unused(); !idle.empty()) fail("nothing has a dimension called '" + idle + "'");
  if (const graph_fault& fault = out_.graph.fault(); !fault.ok()) fail(fault.text);
  return std::move(out_);
}

void shapes_reader::read_versions(const wire::model& m) {
  m_.opset = opset_of(m.opsets, m_.opset);
  if (m.ir_version > newest_ir) {
    note("IR version " + std::to_string(m.ir_version) + " is newer than " + std::to_string(newest_ir) +
         ": what it has added is passed over");
  }
}

void shapes_reader::read_graph(const wire::graph& g) {
  for (const auto* list : {&g.values, &g.outputs}) {
    for (const auto& v : *list) declared_.emplace(v.name, &v.type);
  }
  for (const auto& t : g.initializers) {
    if (taken(t.name)) fail("two initializers are called '" + t.name + "'");
    add_initializer(name_of(m_.source, t.name), t);
  }
  for (const auto& t : g.sparse_initializers) constants_.insert(name_of(m_.source, t.values.name));
  if (&outermost_ == &out_) {
    for (const auto& v : g.inputs) add_input(v);
    if (const std::string open = said_.complaint(); !open.empty()) fail(open);
  }
  uses_ = uses_of(g);
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    if (uses_.used[i]) add_node(g.nodes[i], i);
    const auto before = static_cast<std::uint32_t>(out_.node_of.size());
    out_.node_of.resize(out_.graph.nodes().size(), static_cast<std::uint32_t>(i));
    if (out_.node_of.size() != before && (runs_once(g.nodes[i]) || trains(g.nodes[i]))) out_.once.push_back(before);
  }
}

void shapes_reader::know(const std::string& name, known k) {
  types_.insert_or_assign(name, value_info{name, op::element_of_onnx(k.type), k.s});
  known_.insert_or_assign(name, std::move(k));
}

void shapes_reader::keep_constant(const std::string& name, known k, tensor* t) {
  constants_.insert(name);
  if (t != nullptr) m_.constants.insert_or_assign(name, std::move(*t));
  know(name, std::move(k));
}

void shapes_reader::add_initializer(const std::string& name, const wire::tensor& t) {
  auto small = small_tensor(t, "initializer '" + name + "'");
  keep_constant(name, {t.dims, t.type}, small ? &*small : nullptr);
}

// Returns the tensor if it is small enough to be read, and whole.
std::optional<tensor> shapes_reader::small_tensor(const wire::tensor& t, const std::string& what) const {
  const std::int64_t count = element_count(m_, what, t.dims);
  if (static_cast<std::uint64_t>(count) > most_elements_read) return std::nullopt;
  const element type = op::element_of_onnx(t.type);
  auto data = data_of(t);
  if (!data || data->size() != static_cast<bytes>(count) * element_size(type)) return std::nullopt;
  return tensor{type, t.dims, *std::move(data)};
}

void shapes_reader::add_input(const wire::value_info& v) {
  const std::string& name = name_of(m_.source, v.name);
  if (constants_.contains(name)) return;
  const std::string what = "input '" + name + "'";
  if (v.type.kind != wire::type_kind::tensor) {
    fail(what + " is not a tensor: a sequence or an optional is planned only in a model that runs here; say --dim " +
         name + ".length=N or --dim " + name + ".present=0");
  }
  if (!v.type.has_shape) fail(what + " has no shape");
  known k{{}, v.type.element};
  for (const auto& dim : v.type.shape) k.s.push_back(said_.find_or_note(name, static_cast<int>(k.s.size()), dim));
  (void)element_count(m_, what, k.s);
  if (taken(name)) fail(what + " is there twice");
  add_value(name, std::move(k));
}

// Adds a value that is there before the first node.
void shapes_reader::add_value(const std::string& name, known k) {
  const bytes size = size_of("input '" + name + "'", k);
  if (size != 0) {
    values_.insert_or_assign(name, out_.graph.input(name, {k.s, element::other, size}));
    out_.names.push_back(name);
  } else {
    constants_.insert(name);
  }
  know(name, std::move(k));
}

// Returns the bytes of a value; 0 for one that holds nothing or is of strings, which takes no part in the plan.
bytes shapes_reader::size_of(const std::string& what, const known& k) {
  const unsigned bits = bits_of(k.type);
  if (k.type == wire::string) {
    note(what + " is of strings, whose size no shape says: not counted");
    outermost_.counts_all = false;
    return 0;
  }
  if (bits == 0) fail(what + ": its element type (" + std::to_string(k.type) + ") has no size that is known here");
  const auto all = checked_mul(static_cast<bytes>(element_count(m_, what, k.s)), bits);
  if (!all) fail(what + ": its size exceeds 2^64 bits");
  return *all / 8 + (*all % 8 != 0 ? 1 : 0);
}

node shapes_reader::plain_node(const wire::node& n) const {
  node made{n.name, n.op, n.inputs, n.outputs, {}};
  if (made.name.empty() && !made.outputs.empty()) made.name = made.outputs.front();
  (void)name_of(m_.source, made.name);
  (void)name_of(m_.source, made.op);
  for (const auto* names : {&made.inputs, &made.outputs}) {
    for (const std::string& each : *names) (void)name_of(m_.source, each);
  }
  for (const auto& a : n.attributes) {
    if (add_plain(made.attributes, a) || a.kind != wire::attribute_kind::tensor || a.tensors.empty()) continue;
    auto small = small_tensor(a.tensors.front(), called(made) + ", attribute '" + a.name + "'");
    if (small) made.attributes.emplace(a.name, *std::move(small));
  }
  return made;
}

// Returns whether a Dropout's result is random, or may be: nothing says before the run that it does not train.
bool shapes_reader::trains(const wire::node& n) const {
  if (n.op != "Dropout" || !is_known_domain(n)) return false;
  if (m_.opset < 7) {
    return std::none_of(n.attributes.begin(), n.attributes.end(),
                        [](const auto& a) { return a.name == "is_test" && a.integer != 0; });
  }
  if (n.inputs.size() < 3 || n.inputs[2].empty()) return false;
  const auto said = m_.constants.find(n.inputs[2]);
  return said == m_.constants.end() || said->second.data != std::vector<std::byte>{std::byte{0}};
}

// Refuses a declaration of the file that contradicts what is inferred of `what`.
void shapes_reader::check_alike(const wire::type& in_file, const known& is, const std::string& what) const {
  const declared_type said = declared(in_file);
  const std::string why = contradiction(said, is);
  if (why.empty()) return;
  if (said.type != 0 && said.type != is.type) throw type_contradiction(m_.source, one_line(what + why));
  throw contradiction_error(m_.source, one_line(what + why));
}

// Refuses a declaration in the file, and a size that the caller said, that contradicts what is inferred.
void shapes_reader::check_declared(const node& n, const std::vector<known>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t d = 0; !said_.empty() && d < results[i].s.size(); ++d) {
      const auto said = said_.find(n.outputs[i] + "." + std::to_string(d));
      if (!said || *said == results[i].s[d]) continue;
      throw contradiction_error(
          m_.source,
          one_line(called(n) + ": dimension " + std::to_string(d) + " of its result '" + n.outputs[i] +
                   "' is said to be " + std::to_string(*said) + ", but is " + std::to_string(results[i].s[d])));
    }
    const auto found = declared_.find(n.outputs[i]);
    if (found == declared_.end() || found->second->kind != wire::type_kind::tensor) continue;
    for (const auto& d : found->second->shape) {
      if (!said_.empty() && !d.name.empty()) (void)said_.find(d.name);  // it is a dimension of something
    }
    check_alike(*found->second, results[i], called(n) + ": its result '" + n.outputs[i] + "' ");
  }
}

// Returns a result whose shape no rule knows: from the file, and from what the caller said. `type`: 0, or its type.
known shapes_reader::find_result(const node& n, const std::string& name, std::int64_t type, const std::string& why) {
  const auto declared = declared_.find(name);
  const wire::type* said = declared == declared_.end() ? nullptr : declared->second;
  const bool tensor_said = said != nullptr && said->kind == wire::type_kind::tensor;
  if (said != nullptr && said->kind != wire::type_kind::none && !tensor_said) {
    fail(called(n) + ": its result '" + name + "' is no dense tensor");
  }
  known k;
  if (tensor_said) k.type = said->element;
  const bool ranked = tensor_said && said->has_shape;
  const std::size_t rank = ranked ? said->shape.size() : 0;
  for (std::size_t at = 0; !ranked || at < rank; ++at) {
    const wire::dimension* dim = ranked ? &said->shape[at] : nullptr;
    const int d = static_cast<int>(at);
    const auto size = said_.find(name, d, dim);
    if (!size && !ranked && d > 0) break;  // as many as were said
    if (!size && !ranked) {
      fail(called(n) + ": the shape of its result '" + name + "' is not known (" + why +
           "); give it in the file (value_info) or say it with --dim " + name + ".0=N, " + name + ".1=N, ...");
    }
    if (!size) {
      fail(called(n) + ": dimension " + std::to_string(d) + " of its result '" + name + "' is not known (" + why +
           "); " + said_dimensions::how_to_say(name, d, dim->name));
    }
    k.s.push_back(*size);
  }
  if (type != 0 && k.type != 0 && type != k.type) {
    note(called(n) + ": its result '" + name + "' is planned as " + type_name(k.type) +
         ", as the file declares it, and " + "should be " + type_name(type));
    outermost_.counts_all = false;
  }
  if (k.type == 0) k.type = type;
  if (k.type != 0) return k;
  const auto first = std::find_if(n.inputs.begin(), n.inputs.end(), [&](const auto& i) { return known_.contains(i); });
  if (first == n.inputs.end()) fail(called(n) + ": the element type of its result '" + name + "' is not known");
  k.type = known_.at(*first).type;
  note(called(n) + ": its result '" + name + "' is taken to be of its first input's element type");
  outermost_.counts_all = false;
  return k;
}

void shapes_reader::add_node(const wire::node& from, std::size_t index) {
  node n = plain_node(from);
  for (const std::string& name : n.inputs) {
    if (!name.empty() && !known_.contains(name) && !taken(name)) {
      fail(called(n) + ": input '" + name + "' comes from no earlier node");
    }
  }
  while (n.op != "Split" && n.outputs.size() > 1 && n.outputs.back().empty()) n.outputs.pop_back();
  for (const std::string& name : n.outputs) {
    if (!name.empty() && taken(name)) fail(called(n) + ": its result '" + name + "' is there already");
  }
  const bool known_domain = is_known_domain(from);
  if (n.op == "Constant" && known_domain) return add_constant_node(n, from);
  std::vector<known> results(n.outputs.size());
  std::vector<tensor> folded;
  std::vector<std::uint32_t> in_place;
  inside bodies;
  std::string why;
  if (!known_domain) {
    why = "operators of domain '" + from.domain + "' are not known here";
  } else if (has_sub_graphs(from)) {
    bodies = ask_bodies(n, from);
    why = bodies.why;
    if (why.empty()) results = std::move(bodies.results);
    if (!why.empty()) note(called(n) + ": what its sub-graphs need while they run is not counted: " + why);
    if (!why.empty()) outermost_.counts_all = false;
  } else {
    why =
        op::find(n.op) == nullptr ? infer_beside_table(query_of(n), results) : ask_table(n, results, folded, in_place);
  }
  if (why.empty() && n.op == "ConstantOfShape" && known_domain) {
    // The table is asked without a value whose type it does not know.
    for (const auto& a : from.attributes) {
      if (a.tensors.empty() || n.attributes.contains(a.name)) continue;
      results[0].type = a.tensors.front().type;
      folded.clear();
    }
  }
  if (known_domain) {
    if (const std::string newer = newer_than_read(n.op, m_.opset); !newer.empty()) note(called(n) + ": " + newer);
  }
  if (!why.empty()) {
    const std::int64_t first = known_domain ? type_of_first(n) : 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::int64_t type = has_sub_graphs(from) ? type_inside(from, i) : i == 0 ? first : 0;
      if (!n.outputs[i].empty()) results[i] = find_result(n, n.outputs[i], type, why);
    }
    const bool unknown = !known_domain || (!has_sub_graphs(from) && find_onnx_operator(n.op) == nullptr);
    if (unknown) note(called(n) + ": its results are as the file or the caller says, since " + why);
  } else {
    check_declared(n, results);
  }
  if (!folded.empty()) {
    for (std::size_t i = 0; i < folded.size(); ++i) {
      if (!n.outputs[i].empty()) keep_constant(n.outputs[i], std::move(results[i]), &folded[i]);
    }
    return;
  }
  if (known_domain && is_view(n) && !trains(from) && place_view(n, results)) return;
  place(n, std::move(results), uses_.captured[index], in_place, bodies.workspace);
}

void shapes_reader::add_constant_node(const node& n, const wire::node& from) {
  if (n.outputs.empty()) return;
  for (const auto& a : from.attributes) {
    if (a.kind != wire::attribute_kind::tensor || a.tensors.empty()) continue;
    const known k{a.tensors.front().dims, a.tensors.front().type};
    check_declared(n, {k});
    const auto found = n.attributes.find(a.name);
    tensor copy;
    if (found != n.attributes.end()) copy = std::get<tensor>(found->second);
    keep_constant(n.outputs[0], k, found == n.attributes.end() ? nullptr : &copy);
    return;
  }
  tensor t = constant_of(m_, n);
  (void)element_count(m_, called(n), t.shape);
  const known k{t.shape, op::onnx_number(t.type)};
  check_declared(n, {k});
  keep_constant(n.outputs[0], k, &t);
}

// Makes the result a view of the first input. False: it is one of a node of several results.
bool shapes_reader::place_view(const node& n, std::vector<known>& results) {
  if (n.outputs.size() != 1 || n.inputs.empty()) return false;
  const auto root = values_.find(n.inputs[0]);
  const bytes size = size_of(called(n), results[0]);
  if (root == values_.end()) {  // of a constant
    keep_constant(n.outputs[0], std::move(results[0]), nullptr);
    return true;
  }
  if (size != out_.graph[root->second].size) fail(called(n) + ": its result is not of its input's size");
  values_.emplace(n.outputs[0], out_.graph.view(n.outputs[0], root->second, {results[0].s, element::other, size}));
  out_.names.push_back(n.outputs[0]);
  know(n.outputs[0], std::move(results[0]));
  return true;
}

// Puts the node into the graph, with its results.
void shapes_reader::place(const node& n, std::vector<known> results, const std::set<std::string>& captured,
                          const std::vector<std::uint32_t>& in_place, bytes workspace) {
  std::vector<value_id> inputs;
  node_options options;
  options.op = n.op;
  options.workspace = workspace;
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    const auto found = values_.find(n.inputs[i]);
    if (found == values_.end()) continue;
    if (std::find(in_place.begin(), in_place.end(), i) != in_place.end()) {
      options.in_place.push_back(static_cast<std::uint32_t>(inputs.size()));
    }
    inputs.push_back(found->second);
  }
  for (const std::string& name : captured) {
    if (const auto found = values_.find(name); found != values_.end()) inputs.push_back(found->second);
  }
  // Not what another operand shows too: it may be read after the result is written.
  std::erase_if(options.in_place, [&](std::uint32_t k) {
    const auto root = out_.graph[inputs[k]].root;
    return std::count_if(inputs.begin(), inputs.end(), [&](value_id v) { return out_.graph[v].root == root; }) != 1;
  });
  std::vector<tensor_type> types;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (n.outputs[i].empty()) continue;
    const bytes size = size_of(called(n) + ", result '" + n.outputs[i] + "'", results[i]);
    if (size == 0) {
      keep_constant(n.outputs[i], std::move(results[i]), nullptr);
      continue;
    }
    types.push_back({results[i].s, element::other, size});
    of.push_back(i);
  }
  if (types.empty()) return;
  if (types.size() != 1 || of[0] != 0) options.in_place.clear();
  const std::string& name = n.outputs[of[0]];
  const std::vector<value_id> made =
      types.size() == 1 ? std::vector<value_id>{out_.graph.node(name, std::move(inputs), types[0], std::move(options))}
                        : out_.graph.node_n(name, std::move(inputs), types, std::move(options));
  for (std::size_t k = 0; k < of.size(); ++k) {
    values_.emplace(n.outputs[of[k]], made[k]);
    out_.names.push_back(n.outputs[of[k]]);
    know(n.outputs[of[k]], std::move(results[of[k]]));
  }
  add_weights(n, captured);
}

// Notes the constants that the last node of the graph reads. Constants of types without a size are left out.
void shapes_reader::add_weights(const node& n, const std::set<std::string>& captured) {
  if (&outermost_ != &out_) return;
  const auto reader = static_cast<std::uint32_t>(out_.graph.nodes().size() - 1);
  const auto add = [&](const std::string& name) {
    const auto found = known_.find(name);
    if (!constants_.contains(name) || found == known_.end() || bits_of(found->second.type) == 0) return;
    const bytes size = size_of(called(n) + ", input '" + name + "'", found->second);
    if (size == 0) return;
    const auto [at, fresh] = weight_of_.try_emplace(name, out_.weights.size());
    if (fresh) out_.weights.push_back({.name = name, .size = size, .readers = {}});
    std::vector<std::uint32_t>& readers = out_.weights[at->second].readers;
    if (readers.empty() || readers.back() != reader) readers.push_back(reader);
  };
  for (const std::string& name : n.inputs) add(name);
  for (const std::string& name : captured) add(name);
}

shapes_graph read_onnx_shapes(const std::string& path, const dimensions& said) {
  return read_onnx_shapes(path, read_file(path), said);
}

shapes_graph read_onnx_shapes(const std::string& path, std::string_view file, const dimensions& said) {
  said_dimensions sizes{said};
  return shapes_reader{path, sizes}.read(file);
}

}  // namespace berth::model
