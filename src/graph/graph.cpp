#include "berth/graph/graph.hpp"

#include <optional>
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
  structure_.values.push_back({made.size, v.index, kind});
  values_.push_back(std::move(made));
  return v;
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

value_id graph::add_view(std::string name, value_id of, tensor_type type, bytes offset, node_id producer) {
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
  return v;
}

value_id graph::view(std::string name, value_id of, tensor_type type, bytes offset) {
  return add_view(std::move(name), of, std::move(type), offset, {});
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
  made.stream = options.stream;
  nodes_.push_back(std::move(made));
  return n;
}

bool graph::same_layout(value_id operand, value_id result) const noexcept {
  const value& a = values_[operand.index];
  const value& r = values_[result.index];
  if (a.size != r.size || a.root_offset != 0 || values_[a.root.index].size != a.size) return false;
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

void graph::clear() noexcept {
  values_.clear();
  nodes_.clear();
  structure_.values.clear();
  structure_.nodes.clear();
  structure_.edges.clear();
  structure_.views.clear();
  structure_.separations.clear();
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
