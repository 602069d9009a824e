#include "model/onnx/infer.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "berth/model/input_error.hpp"
#include "model/onnx/fold.hpp"
#include "model/onnx/inference.hpp"
#include "model/onnx/shape_rules.hpp"
#include "op/request.hpp"
#include "op/shapes.hpp"

namespace berth::model {

namespace {

bool holds_nothing(const shape& s) {
  return std::find(s.begin(), s.end(), 0) != s.end();
}

// Drops nodes without a used result, from the back.
void drop_unused(description& m) {
  std::set<std::string> used(m.outputs.begin(), m.outputs.end());
  std::vector<node> kept;
  for (std::size_t i = m.nodes.size(); i-- > 0;) {
    node& n = m.nodes[i];
    if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](const auto& o) { return used.contains(o); })) continue;
    used.insert(n.inputs.begin(), n.inputs.end());
    used.erase("");  // an input left out is no result left out
    kept.push_back(std::move(n));
  }
  std::reverse(kept.begin(), kept.end());
  m.nodes = std::move(kept);
}

// Returns whether the node gains. Each result is rounded once, as by the table's kernel, which is far slower
// (bench_model_halves).
bool gains_by_widening(const op::request& q) {
  const element type = q.inputs[0]->type;
  return (type == element::f16 || type == element::bf16) &&
         (q.op == "Conv" || q.op == "ConvTranspose" || q.op == "Gemm" || q.op == "MatMul");
}

}  // namespace

op::request request_of(const description& m, const node& n, const value_types& types) {
  op::request q{n.op, m.opset};
  for (const std::string& name : n.inputs) {
    if (name.empty()) {
      q.inputs.emplace_back();
      q.constants.push_back(nullptr);
      continue;
    }
    const auto found = types.find(name);
    if (found == types.end()) {
      throw input_error(m.source, called(n) + ": input '" + name + "' comes from no earlier node");
    }
    const auto constant = m.constants.find(name);
    q.inputs.emplace_back(tensor_type{found->second.shape, found->second.type});
    q.constants.push_back(constant == m.constants.end() ? nullptr : &constant->second);
  }
  while (!q.inputs.empty() && !q.inputs.back()) {  // left out at the end: not there
    q.inputs.pop_back();
    q.constants.pop_back();
  }
  q.attributes = n.attributes;
  q.outputs = n.outputs.size();
  return q;
}

void inference::fail(const node& n, const std::string& what) const {
  throw input_error(m_.source, called(n) + ": " + what);
}

value_types inference::run() {
  for (const value_info& v : m_.inputs) {
    if (!types_.emplace(v.name, v).second) throw input_error(m_.source, "two inputs are called '" + v.name + "'");
  }
  for (const auto& [name, t] : m_.constants) {
    if (!types_.emplace(name, value_info{name, t.type, t.shape}).second) {
      throw input_error(m_.source, "'" + name + "' is an input and a constant");
    }
  }
  for (const value_info& v : m_.inputs) {
    if (holds_nothing(v.shape)) know(v.name, {v.type, v.shape, {}});
  }
  std::vector<node> nodes = std::move(m_.nodes);
  for (node& n : nodes) add(std::move(n));
  for (const auto& [name, said] : m_.declared) {
    const auto found = types_.find(name);
    if (found == types_.end()) continue;
    const known is{found->second.shape, op::onnx_number(found->second.type)};
    if (const std::string why = contradiction(said, is); !why.empty()) {
      throw input_error(m_.source, "value '" + name + "' " + why);
    }
  }
  spread_outputs();
  m_.nodes = std::move(left_);
  drop_unused(m_);
  for (const std::string& name : m_.outputs) {
    if (!types_.contains(name)) throw input_error(m_.source, "output '" + name + "' is computed by no node");
  }
  return std::move(types_);
}

inference::way inference::way_of(const std::string& op) {
  static const auto& all = *new std::map<std::string_view, way>{
      {"ConcatFromSequence", &inference::add_concat},
      {"If", &inference::add_if},
      {"Loop", &inference::add_loop},
      {"Optional", &inference::add_optional},
      {"OptionalGetElement", &inference::add_get_element},
      {"OptionalHasElement", &inference::add_has_element},
      {"Scan", &inference::add_scan},
      {"SequenceAt", &inference::add_at},
      {"SequenceConstruct", &inference::add_construct},
      {"SequenceEmpty", &inference::add_empty},
      {"SequenceErase", &inference::add_erase},
      {"SequenceInsert", &inference::add_insert},
      {"SequenceLength", &inference::add_length},
      {"SequenceMap", &inference::add_map},
      {"SplitToSequence", &inference::add_split},
  };
  const auto found = all.find(op);
  return found == all.end() ? nullptr : found->second;
}

void inference::add(node n) {
  if (n.outputs.empty()) fail(n, "has no outputs");
  if (const way special = way_of(n.op)) return (this->*special)(n);
  if (n.op == "Identity" && n.inputs.size() == 1 && list_of(n.inputs[0]) != nullptr) {
    return keep_list(n, n.outputs[0], *list_of(n.inputs[0]));
  }
  for (const std::string& name : n.inputs) {
    if (list_of(name) != nullptr) fail(n, "'" + name + "' is a sequence or an optional, not a tensor");
  }
  for (const std::string& name : n.outputs) check_new(n, name);
  std::vector<tensor> folded;
  std::vector<tensor_type> results;
  try {
    if (n.op == "Constant") {
      folded.push_back(constant_of(m_, n));
      if (unfolded_ != 0) room_.take(m_, n, folded.back().data.size());  // perhaps a copy
    } else {
      // Left out at the end: not there. But of Split each is a part.
      while (n.op != "Split" && n.outputs.back().empty() && n.outputs.size() > 1) n.outputs.pop_back();
      if (m_.opset < 7) widen_operand(n);
      const op::request q = request_of(m_, n, types_);
      results = op::infer(q);
      if (widen_ && gains_by_widening(q) && !holds_nothing(results[0].shape)) return add_wide(n, results[0].type);
      folded = fold(m_, n, q, results, room_);
    }
  } catch (const op::refusal& why) {
    fail(n, why.what());
  }
  for (std::size_t i = 0; i < folded.size(); ++i) {
    (void)element_count(m_, called(n), folded[i].shape);
    if (!n.outputs[i].empty()) know(n.outputs[i], std::move(folded[i]));
  }
  if (!folded.empty()) return;
  // An empty value is known.
  bool computes = false;
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i].empty()) continue;
    types_.insert_or_assign(n.outputs[i], value_info{n.outputs[i], results[i].type, results[i].shape});
    if (holds_nothing(results[i].shape)) {
      know(n.outputs[i], {results[i].type, results[i].shape, {}});
    } else {
      computes = true;
    }
  }
  if (computes) left_.push_back(std::move(n));
}

// Widens an operand of before opset 7, which lies along an axis of the other one. With dimensions of 1 behind its own
// it broadcasts as it has done since.
void inference::widen_operand(node& n) {
  const std::size_t ones = op::trailing_ones(request_of(m_, n, types_));
  if (ones == 0) return;
  shape axes(ones);
  std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(type_of(n, n.inputs[1]).shape.size()));
  std::string widened = fresh(n, "wide");
  add_named(n, "Unsqueeze", {n.inputs[1]}, widened, {{"axes", std::move(axes)}});
  n.inputs[1] = std::move(widened);
  n.attributes.erase("axis");
  n.attributes.erase("broadcast");
}

void inference::add_wide(const node& n, element type) {
  node wide = n;
  for (std::string& input : wide.inputs) {
    if (input.empty()) continue;
    std::string name = widened_[input];
    if (name.empty()) {
      name = fresh(n, "wide");
      add_cast(n, input, name, element::f32);
      // Keeps a constant once. Each reader makes its own copy of a computed value, which lives no longer than that.
      if (constant(name) != nullptr) widened_[input] = name;
    }
    input = name;
  }
  wide.outputs = {fresh(n, "wide")};
  const std::string made = wide.outputs[0];
  add(std::move(wide));
  add_cast(n, made, n.outputs[0], type);
}

void inference::add_cast(const node& n, const std::string& from, const std::string& to, element type) {
  node cast{n.name + ":Cast", "Cast", {from}, {to}, {{"to", op::onnx_number(type)}}};
  room_.take(m_, n, copied_by(cast, {}));
  add(std::move(cast));
}

void inference::know(const std::string& name, tensor t) {
  types_.insert_or_assign(name, value_info{name, t.type, t.shape});
  m_.constants.insert_or_assign(name, std::move(t));
}

const tensor* inference::constant(const std::string& name) const {
  const auto found = m_.constants.find(name);
  return found == m_.constants.end() ? nullptr : &found->second;
}
void inference::check_new(const node& n, const std::string& result) const {
  if (types_.contains(result) || list_of(result) != nullptr) {
    fail(n, "its result '" + result + "' is there already");
  }
}

const value_info& inference::type_of(const node& n, const std::string& name) const {
  if (list_of(name) != nullptr) fail(n, "'" + name + "' is a sequence or an optional, not a tensor");
  const auto found = types_.find(name);
  if (found == types_.end()) fail(n, "'" + name + "' comes from no earlier node");
  return found->second;
}

// Returns about the bytes that a copy of the node takes.
bytes inference::copied_by(const node& n, const renaming& names) {
  bytes size = 512 + n.name.size() + names.prefix.size();
  for (const auto* list : {&n.inputs, &n.outputs}) {
    for (const std::string& name : *list) size += names.copied_by(name);
  }
  for (const auto& [name, value] : n.attributes) {
    size += 64 + name.size();
    if (const auto* t = std::get_if<tensor>(&value)) size += t->data.size();
    if (const auto* list = std::get_if<shape>(&value)) size += 8 * list->size();
    if (const auto* list = std::get_if<std::vector<float>>(&value)) size += 4 * list->size();
    if (const auto* text = std::get_if<std::string>(&value)) size += text->size();
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& text : *texts) size += 32 + text.size();
    }
  }
  for (const auto& [which, body] : n.bodies) {
    size += 256;
    for (const auto* list : {&body->inputs, &body->outputs}) {
      for (const std::string& name : *list) size += names.copied_by(name);
    }
    for (const node& inside : body->nodes) size += copied_by(inside, names);
  }
  return size;
}

// Inputs and outputs count like nodes: a body may have no others.
void inference::count(const node& n, std::size_t more) {
  if (more > most_unfolded - unfolded_) {
    fail(n,
         "sub-graphs and sequences come to more than " + std::to_string(most_unfolded) + " nodes, inputs and outputs");
  }
  unfolded_ += more;
}

void inference::add_named(const node& n, const char* op, std::vector<std::string> inputs, const std::string& output,
                          op::attributes attributes) {
  if (output.empty()) return;
  count(n, 1);
  node made{n.name + ":" + op, op, std::move(inputs), {output}, std::move(attributes)};
  room_.take(m_, n, copied_by(made, {}));
  add(std::move(made));
}

std::string inference::fresh(const node& n, const char* what) {
  std::string name = "@" + std::to_string(++bodies_) + "/" + what;
  check_new(n, name);
  return name;
}

std::string inference::keep(const node& n, const char* what, element type, shape s, std::int64_t value) {
  tensor t{type, std::move(s), std::vector<std::byte>(static_cast<std::size_t>(element_size(type)))};
  std::memcpy(t.data.data(), &value, t.data.size());
  std::string name = fresh(n, what);
  know(name, std::move(t));
  return name;
}

void inference::add_along(const node& n, const char* op, const std::string& input, std::int64_t axis,
                          const std::string& output) {
  if (m_.opset < 13) return add_named(n, op, {input}, output, {{"axes", shape{axis}}});
  add_named(n, op, {input, keep(n, "axis", element::i64, {1}, axis)}, output);
}

void inference::add_joined(const node& n, std::vector<std::string> parts, const std::string& output, std::int64_t axis,
                           bool anew) {
  for (std::string& part : parts) {
    if (!anew) break;
    std::string made = fresh(n, "part");
    add_along(n, "Unsqueeze", part, axis, made);
    part = std::move(made);
  }
  add_named(n, "Concat", std::move(parts), output, {{"axis", axis}});
}

value_types infer(description& m, allowance& room, bool widen) {
  return inference{m, room, widen}.run();
}

}  // namespace berth::model
