#include "berth/graph/graph.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace berth {

bytes element_size(element e) noexcept {
  switch (e) {
    case element::f64:
    case element::i64:
    case element::u64: return 8;
    case element::f32:
    case element::i32:
    case element::u32: return 4;
    case element::f16:
    case element::bf16:
    case element::i16:
    case element::u16: return 2;
    case element::i8:
    case element::u8:
    case element::boolean: return 1;
    case element::other: return 0;
  }
  return 0;
}

const char* name(value_kind k) noexcept {
  switch (k) {
    case value_kind::input: return "an input";
    case value_kind::constant: return "a constant";
    case value_kind::external: return "external";
    case value_kind::state: return "a state";
    case value_kind::result: return "a result";
    case value_kind::view: return "a view";
  }
  return "unknown";
}

namespace {

// FNV-1a. It only distinguishes operators in the structure; no look-up uses it.
std::uint32_t hash_of(std::string_view text) noexcept {
  std::uint32_t h = 2166136261u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}

std::string quoted(const std::string& s) {
  return "'" + s + "'";
}

std::string varying_state(const std::string& name) {
  return "state " + quoted(name) + " has a size by dimensions: it keeps its bytes, so give it its largest size";
}

// Returns the bytes from the first element to the end of the last; nothing on overflow.
std::optional<bytes> spanned(const tensor_type& type) {
  std::optional<bytes> total = element_size(type.type);
  if (type.strides.empty()) {
    for (const auto d : type.shape) total = total ? checked_mul(*total, static_cast<bytes>(d)) : total;
    return total;
  }
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (type.shape[i] == 0) return 0;
    const auto reach = checked_mul(static_cast<bytes>(type.shape[i]) - 1, static_cast<bytes>(type.strides[i]));
    total = total && reach ? checked_add(*total, *reach) : std::nullopt;
  }
  return total;
}

}  // namespace

void graph::report(fault_kind kind, value_id v, node_id n, bytes number, std::string text) {
  if (fault_.ok()) fault_ = {kind, v, n, number, std::move(text)};
}

bytes graph::resolve(const std::string& name, tensor_type& type) {
  const value_id v{static_cast<std::uint32_t>(values_.size())};
  bool negative = false;
  for (const auto d : type.shape) negative = negative || d < 0;
  for (const auto s : type.strides) negative = negative || s < 0;
  if (negative) {
    report(fault_kind::bad_shape, v, {}, 0, "value " + quoted(name) + " has a negative extent or stride");
    return 0;
  }
  if (!type.strides.empty() && type.strides.size() != type.shape.size()) {
    report(fault_kind::bad_shape, v, {}, 0, "value " + quoted(name) + " has another number of strides than extents");
    return 0;
  }
  if (!type.open.empty()) {
    const auto most = at_most(type.open);
    if (!most) {
      report(fault_kind::size_overflow, v, {}, max_bytes,
             "value " + quoted(name) + " takes more than 2^62 bytes at the largest values of its dimensions");
    }
    type.size = most.value_or(0);
    if (type.open.terms().back().dimensions.empty()) type.open = {};  // a number
    return type.size;
  }
  if (type.size != 0) return type.size;
  if (type.type == element::other) {
    report(fault_kind::bad_shape, v, {}, 0, "value " + quoted(name) + " has neither a size nor an element type");
    return 0;
  }
  const auto size = spanned(type);
  if (!size) {
    report(fault_kind::size_overflow, v, {}, max_bytes, "value " + quoted(name) + " takes more than 2^64 - 1 bytes");
    return 0;
  }
  return *size;
}

value_id graph::add(std::string name, tensor_type type, value_kind kind) {
  const value_id v{static_cast<std::uint32_t>(values_.size())};
  value made;
  made.size = resolve(name, type);
  made.name = std::move(name);
  made.type = std::move(type);
  made.kind = kind;
  made.root = v;
  if (!made.type.open.empty()) {
    if (kind == value_kind::state) {
      report(fault_kind::bad_shape, v, {}, made.size, varying_state(made.name));
    }
    open_.values.push_back({v.index, number_of(made.type.open)});
  }
  structure_.values.push_back({made.size, v.index, kind});
  values_.push_back(std::move(made));
  return v;
}

extent graph::dimension(std::string name, bytes least, bytes most) {
  const auto taken = [&](const plan::dimension& d) { return d.name == name; };
  if (std::any_of(open_.dimensions.begin(), open_.dimensions.end(), taken)) {
    report(fault_kind::bad_dimension, {}, {}, 0, "two dimensions are called " + quoted(name));
  }
  if (least == 0 || least > most || most > plan::max_address) {
    report(fault_kind::bad_dimension, {}, {}, least,
           "dimension " + quoted(name) + " is from " + std::to_string(least) + " to " + std::to_string(most) +
               ": it needs 1 or more, in rising order, to 2^62");
  }
  open_.dimensions.push_back({std::move(name), least, most});
  return extent{{{1, {static_cast<plan::index>(open_.dimensions.size() - 1)}}}};
}

// Returns the number of an extent among those of the graph.
std::uint32_t graph::number_of(const extent& e) {
  const auto [at, fresh] = numbers_.emplace(e, static_cast<std::uint32_t>(open_.extents.size()));
  if (fresh) open_.extents.push_back(e);
  return at->second;
}

// Returns nothing if a dimension does not exist or the size is above plan::max_address.
std::optional<bytes> graph::at_most(const extent& e) const {
  for (const plan::size_term& t : e.terms()) {
    if (!t.dimensions.empty() && t.dimensions.back() >= open_.dimensions.size()) return std::nullopt;
  }
  return plan::size_at(e.terms(), open_.largest());
}

extent graph::size_of(value_id v) const {
  const value& it = values_[v.index];
  return it.type.open.empty() ? extent{it.size} : it.type.open;
}

value_id graph::input(std::string name, tensor_type type) {
  return add(std::move(name), std::move(type), value_kind::input);
}

value_id graph::constant(std::string name, tensor_type type) {
  return add(std::move(name), std::move(type), value_kind::constant);
}

value_id graph::external(std::string name, tensor_type type) {
  return add(std::move(name), std::move(type), value_kind::external);
}

value_id graph::state(std::string name, tensor_type type) {
  return add(std::move(name), std::move(type), value_kind::state);
}

value_id graph::add_view(std::string name, value_id of, tensor_type type, bytes offset, node_id producer,
                         const extent& open_offset) {
  const value_id v{static_cast<std::uint32_t>(values_.size())};
  if (!known(of)) {
    report(fault_kind::unknown_value, v, producer, of.index,
           "view " + quoted(name) + " is of value #" + std::to_string(of.index) + ", which does not exist yet");
    return add(std::move(name), std::move(type), value_kind::external);
  }
  const value_id root = values_[of.index].root;
  const auto start = checked_add(values_[of.index].root_offset, offset);
  value made;
  made.size = resolve(name, type);
  const auto end = start ? checked_add(*start, made.size) : std::nullopt;
  const bytes room = values_[root.index].size;
  if (!end || *end > room) {
    const bytes beyond = end ? *end - room : max_bytes;
    report(fault_kind::view_beyond_root, v, producer, beyond,
           "view " + quoted(name) + " of " + std::to_string(made.size) + " bytes at offset " +
               std::to_string(start.value_or(max_bytes)) + " ends " + std::to_string(beyond) + " bytes beyond " +
               quoted(values_[root.index].name) + ", which has " + std::to_string(room));
  }
  made.name = std::move(name);
  made.type = std::move(type);
  made.kind = value_kind::view;
  made.root = root;
  made.root_offset = start.value_or(0);
  // A view of a written view shows that writing.
  const node_id shown = values_[of.index].kind == value_kind::view ? values_[of.index].producer : node_id{};
  const bool writes = producer != node_id{};
  made.producer = writes ? producer : shown;
  structure_.values.push_back({made.size, root.index, value_kind::view});
  structure_.views.push_back({made.root_offset, v.index, made.producer.index + 1, writes ? shown.index + 1 : 0});
  values_.push_back(std::move(made));
  if (!open_.dimensions.empty()) open_view(v, of, offset, open_offset);
  return v;
}

// Notes the parts of a new view that depend on dimensions: its size, its offset, and whether it ends in its root.
void graph::open_view(value_id v, value_id of, bytes offset, const extent& open_offset) {
  const auto position = static_cast<std::uint32_t>(structure_.views.size() - 1);
  if (!values_[v.index].type.open.empty()) open_.values.push_back({v.index, number_of(values_[v.index].type.open)});
  extent start = open_offset.empty() ? extent{offset} : open_offset;
  if (values_[of.index].kind == value_kind::view) {
    const auto viewed = std::lower_bound(
        open_.views.begin(), open_.views.end(), of.index,
        [&](const open_sizes::use& u, std::uint32_t value) { return structure_.views[u.of].value < value; });
    const bool is_open = viewed != open_.views.end() && structure_.views[viewed->of].value == of.index;
    start = start + (is_open ? open_.extents[viewed->extent] : extent{values_[of.index].root_offset});
  }
  if (!start.terms().back().dimensions.empty()) open_.views.push_back({position, number_of(start)});
  keep_inside(v, start);
}

// Notes that a view must end in its root, unless that holds at all values.
void graph::keep_inside(value_id v, const extent& start) {
  const extent end = start + size_of(v), root = size_of(values_[v.index].root);
  const bool open = !end.terms().back().dimensions.empty() || !root.terms().back().dimensions.empty();
  if (open && end != root) open_.inside_roots.push_back({v.index, number_of(end), number_of(root)});
}

value_id graph::view(std::string name, value_id of, tensor_type type, bytes offset) {
  return add_view(std::move(name), of, std::move(type), offset, {});
}

value_id graph::view(std::string name, value_id of, tensor_type type, const extent& offset) {
  const auto most = at_most(offset);
  return add_view(std::move(name), of, std::move(type), most.value_or(max_bytes), {}, offset);
}

value_id graph::view(value_id of, tensor_type type, bytes offset) {
  constexpr std::string_view shown = ".view";
  constexpr std::size_t longest = 256;  // of a name in the file that each of its views repeats
  std::string name = known(of) ? values_[of.index].name : "";
  if (name.size() > longest) name.clear();
  // A view of a view takes the name of the viewed value: names do not grow along a chain of them.
  if (!name.ends_with(shown)) name += name.empty() ? shown.substr(1) : shown;
  return add_view(std::move(name), of, std::move(type), offset, {});
}

node_id graph::add_node(std::string name, std::vector<value_id> inputs, node_options options) {
  const node_id n{static_cast<std::uint32_t>(nodes_.size())};
  for (const value_id v : inputs) {
    if (known(v)) continue;
    report(fault_kind::unknown_value, v, n, v.index,
           "node " + quoted(name) + " reads value #" + std::to_string(v.index) +
               ", which does not exist yet: the graph has a cycle, or its nodes are out of order");
  }
  for (const auto k : options.in_place) {
    if (k < inputs.size()) continue;
    report(fault_kind::bad_node, {}, n, k,
           "node " + quoted(name) + " names operand " + std::to_string(k) + " for in-place use and has " +
               std::to_string(inputs.size()));
  }
  berth::node made;
  made.name = std::move(name);
  made.op = std::move(options.op);
  made.inputs = std::move(inputs);
  made.in_place = std::move(options.in_place);
  made.workspace = options.workspace;
  if (!options.open_workspace.empty()) {
    const auto most = at_most(options.open_workspace);
    if (!most) {
      report(fault_kind::size_overflow, {}, n, max_bytes,
             "the workspace of node " + quoted(made.name) +
                 " takes more than 2^62 bytes at the largest values of its dimensions");
    }
    made.workspace = most.value_or(0);
    open_.workspaces.push_back({n.index, number_of(options.open_workspace)});
  }
  made.stream = options.stream;
  nodes_.push_back(std::move(made));
  return n;
}

bool graph::same_layout(value_id operand, value_id result) const noexcept {
  const value& a = values_[operand.index];
  const value& r = values_[result.index];
  if (a.size != r.size || a.root_offset != 0 || values_[a.root.index].size != a.size) return false;
  if (a.type.open != r.type.open || values_[a.root.index].type.open != a.type.open) return false;
  if (a.type.strides.empty() && r.type.strides.empty()) return true;
  return a.type.strides == r.type.strides && a.type.shape == r.type.shape && a.type.type == r.type.type;
}

void graph::finish_node(node_id n) {
  const berth::node& made = nodes_[n.index];
  node_record record;
  record.workspace = made.workspace;
  record.op = hash_of(made.op);
  record.stream = made.stream;
  record.first_edge = static_cast<std::uint32_t>(structure_.edges.size());
  record.inputs = static_cast<std::uint32_t>(made.inputs.size());
  record.outputs = static_cast<std::uint32_t>(made.outputs.size());
  for (const value_id v : made.inputs) structure_.edges.push_back(v.index);
  for (const value_id v : made.outputs) structure_.edges.push_back(v.index);
  for (const auto k : made.in_place) {
    if (k >= made.inputs.size() || !known(made.inputs[k]) || made.outputs.empty()) continue;
    if (values_[made.outputs[0].index].kind != value_kind::result || !same_layout(made.inputs[k], made.outputs[0])) {
      continue;
    }
    structure_.edges.push_back(k);
    ++record.in_place;
  }
  structure_.nodes.push_back(record);
}

value_id graph::node(std::string name, std::vector<value_id> inputs, tensor_type type, node_options options) {
  const node_id n = add_node(name, std::move(inputs), std::move(options));
  const value_id v = add(std::move(name), std::move(type), value_kind::result);
  values_[v.index].producer = n;
  nodes_[n.index].outputs.push_back(v);
  finish_node(n);
  return v;
}

std::vector<value_id> graph::node_n(std::string name, std::vector<value_id> inputs, std::vector<tensor_type> types,
                                    node_options options) {
  const node_id n = add_node(name, std::move(inputs), std::move(options));
  std::vector<value_id> made;
  for (std::size_t i = 0; i < types.size(); ++i) {
    made.push_back(add(name + ":" + std::to_string(i), std::move(types[i]), value_kind::result));
    values_[made.back().index].producer = n;
  }
  nodes_[n.index].outputs = made;
  finish_node(n);
  return made;
}

value_id graph::node_into(std::string name, std::vector<value_id> inputs, value_id destination, node_options options) {
  options.in_place.clear();
  const node_id n = add_node(name, std::move(inputs), std::move(options));
  if (known(destination) && values_[values_[destination.index].root.index].kind == value_kind::constant) {
    report(fault_kind::bad_node, destination, n, values_[destination.index].size,
           "node " + quoted(name) + " writes into the constant " + quoted(values_[destination.index].name));
  }
  tensor_type type;
  if (known(destination)) {
    type = values_[destination.index].type;
    type.size = values_[destination.index].size;
  }
  const value_id v = add_view(std::move(name), destination, std::move(type), 0, n);
  nodes_[n.index].outputs.push_back(v);
  finish_node(n);
  return v;
}

void graph::output(value_id v) {
  if (!known(v)) {
    report(fault_kind::unknown_value, v, {}, v.index,
           "value #" + std::to_string(v.index) + " is named as an output and does not exist");
    return;
  }
  const value_id root = values_[v.index].root;
  values_[v.index].output = values_[root.index].output = true;
  structure_.values[v.index].output = structure_.values[root.index].output = 1;
}

void graph::separate(value_id a, value_id b) {
  if (!known(a) || !known(b)) {
    report(fault_kind::unknown_value, known(a) ? b : a, {}, 0, "a value to be kept apart does not exist");
    return;
  }
  structure_.separations.push_back(values_[a.index].root.index);
  structure_.separations.push_back(values_[b.index].root.index);
}

void graph::open(open_sizes sizes) {
  open_ = std::move(sizes);
  open_.inside_roots.clear();
  numbers_.clear();
  for (std::uint32_t e = 0; e < open_.extents.size(); ++e) numbers_.emplace(open_.extents[e], e);
  const auto number = [&](const open_sizes::use& u, value_id v) {
    const auto most = at_most(open_.extents[u.extent]);
    if (!most) report(fault_kind::size_overflow, v, {}, max_bytes, "a size exceeds 2^62 bytes at the largest values");
    return most.value_or(0);
  };
  for (const open_sizes::use& u : open_.values) {
    value& it = values_[u.of];
    it.size = it.type.size = structure_.values[u.of].size = number(u, {u.of});
    it.type.open = open_.extents[u.extent];
    if (it.kind == value_kind::state) report(fault_kind::bad_shape, {u.of}, {}, it.size, varying_state(it.name));
  }
  for (const open_sizes::use& u : open_.workspaces) {
    nodes_[u.of].workspace = structure_.nodes[u.of].workspace = number(u, {});
  }
  auto moved = open_.views.begin();
  for (std::uint32_t i = 0; i < structure_.views.size(); ++i) {
    view_record& view = structure_.views[i];
    const bool moves = moved != open_.views.end() && moved->of == i;
    const extent start = moves ? open_.extents[moved->extent] : extent{view.offset};
    if (moves) values_[view.value].root_offset = view.offset = number(*moved++, {view.value});
    keep_inside({view.value}, start);
  }
}

void graph::clear() noexcept {
  values_.clear();
  nodes_.clear();
  structure_.values.clear();
  structure_.nodes.clear();
  structure_.edges.clear();
  structure_.views.clear();
  structure_.separations.clear();
  open_ = {};
  numbers_.clear();
  fault_ = {};
}

graph_fault validate(const graph& g, bool unique_names) {
  if (!g.fault().ok() || !unique_names) return g.fault();
  std::unordered_map<std::string_view, std::uint32_t> seen;
  seen.reserve(g.values().size());
  for (std::uint32_t i = 0; i < g.values().size(); ++i) {
    const value& v = g.values()[i];
    if (v.name.empty()) continue;
    const auto [first, fresh] = seen.emplace(v.name, i);
    if (fresh) continue;
    return {fault_kind::duplicate_name,
            {i},
            v.producer,
            v.size,
            "values #" + std::to_string(first->second) + " and #" + std::to_string(i) + " (" + std::to_string(v.size) +
                " bytes) are both called " + quoted(v.name)};
  }
  return {};
}

}  // namespace berth
