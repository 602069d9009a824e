#include "model/onnx/infer.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "berth/model/input_error.hpp"
#include "model/onnx/fold.hpp"
#include "model/onnx/scoped_names.hpp"
#include "op/request.hpp"

namespace berth::model {

namespace {

[[noreturn]] void fail(const description& m, const node& n, const std::string& what) {
  throw input_error(m.source, called(n) + ": " + what);
}

// Drops nodes whose results nobody reads, from the back.
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
    if (found == types.end()) fail(m, n, "input '" + name + "' comes from no earlier node");
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

namespace {

class inference {
 public:
  inference(description& m, allowance& room, bool widen) : m_{m}, room_{room}, widen_{widen} {}

  value_types run() {
    for (const value_info& v : m_.inputs) types_.emplace(v.name, v);
    for (const auto& [name, t] : m_.constants) {
      if (!types_.emplace(name, value_info{name, t.type, t.shape}).second) {
        throw input_error(m_.source, "'" + name + "' is an input and a constant");
      }
    }
    std::vector<node> nodes = std::move(m_.nodes);
    for (node& n : nodes) add(std::move(n));
    m_.nodes = std::move(left_);
    drop_unused(m_);
    for (const std::string& name : m_.outputs) {
      if (!types_.contains(name)) throw input_error(m_.source, "output '" + name + "' is computed by no node");
    }
    return std::move(types_);
  }

 private:
  void add(node n) {
    if (n.outputs.empty()) fail(m_, n, "has no outputs");
    if (n.op == "If") return add_if(n);
    if (n.op == "Loop") return add_loop(n);
    if (n.op == "Scan") return add_scan(n);
    for (const std::string& name : n.outputs) {
      if (types_.contains(name)) fail(m_, n, "its result '" + name + "' is there already");
    }
    std::vector<tensor> folded;
    std::vector<tensor_type> results;
    try {
      if (n.op == "Constant") {
        folded.push_back(constant_of(m_, n));
        if (unfolded_ != 0) room_.take(m_, n, folded.back().data.size());  // perhaps a copy
      } else {
        while (n.outputs.back().empty() && n.outputs.size() > 1) n.outputs.pop_back();
        const op::request q = request_of(m_, n, types_);
        results = op::infer(q);
        if (widen_ && gains_by_widening(q)) return add_wide(n, results[0].type);
        folded = fold(m_, n, q, results, room_);
      }
    } catch (const op::refusal& why) {
      fail(m_, n, why.what());
    }
    for (std::size_t i = 0; i < folded.size(); ++i) {
      (void)element_count(m_, called(n), folded[i].shape);
      if (!n.outputs[i].empty()) know(n.outputs[i], std::move(folded[i]));
    }
    if (!folded.empty()) return;
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i].empty()) continue;
      types_.insert_or_assign(n.outputs[i], value_info{n.outputs[i], results[i].type, results[i].shape});
    }
    left_.push_back(std::move(n));
  }

  // Each result is rounded once, as by the table's kernel, which is far slower (bench_model_halves).
  static bool gains_by_widening(const op::request& q) {
    const element type = q.inputs[0]->type;
    return (type == element::f16 || type == element::bf16) &&
           (q.op == "Conv" || q.op == "ConvTranspose" || q.op == "Gemm" || q.op == "MatMul");
  }
  void add_wide(const node& n, element type) {
    node wide = n;
    for (std::string& input : wide.inputs) {
      if (input.empty()) continue;
      std::string name = widened_[input];
      if (name.empty()) {
        name = fresh(n, "wide");
        add_cast(n, input, name, element::f32);
        // A constant is kept once. Of what is computed each reader makes its own, which lives no longer than that.
        if (constant(name) != nullptr) widened_[input] = name;
      }
      input = name;
    }
    wide.outputs = {fresh(n, "wide")};
    const std::string made = wide.outputs[0];
    add(std::move(wide));
    add_cast(n, made, n.outputs[0], type);
  }
  void add_cast(const node& n, const std::string& from, const std::string& to, element type) {
    node cast{n.name + ":Cast", "Cast", {from}, {to}, {{"to", op::onnx_number(type)}}};
    room_.take(m_, n, copied_by(cast, {}));
    add(std::move(cast));
  }

  void know(const std::string& name, tensor t) {
    types_.insert_or_assign(name, value_info{name, t.type, t.shape});
    m_.constants.insert_or_assign(name, std::move(t));
  }

  [[nodiscard]] const tensor* constant(const std::string& name) const {
    const auto found = m_.constants.find(name);
    return found == m_.constants.end() ? nullptr : &found->second;
  }
  // A condition's value where it is known now.
  [[nodiscard]] std::optional<bool> known_truth(const node& n, const std::string& name) const {
    const tensor* t = constant(name);
    if (t == nullptr) return std::nullopt;
    if (t->type != element::boolean || t->data.size() != 1) fail(m_, n, "its condition is not one boolean");
    return t->data[0] != std::byte{0};
  }
  [[nodiscard]] const value_info& type_of(const node& n, const std::string& name) const {
    const auto found = types_.find(name);
    if (found == types_.end()) fail(m_, n, "'" + name + "' comes from no earlier node");
    return found->second;
  }
  [[nodiscard]] const subgraph& body_of(const node& n, const char* which) const {
    const auto found = n.bodies.find(which);
    if (found == n.bodies.end()) fail(m_, n, std::string{"it has no "} + which);
    return *found->second;
  }

  // Adds the body's nodes, every name that it gives made another; returns what its outputs are called now.
  std::vector<std::string> unfold(const node& n, const subgraph& body, const std::vector<std::string>& inputs) {
    if (inputs.size() != body.inputs.size()) {
      fail(m_, n,
           "its body takes " + std::to_string(body.inputs.size()) + " inputs, not " + std::to_string(inputs.size()));
    }
    renaming names{"@" + std::to_string(++bodies_) + "/", {}};
    for (std::size_t i = 0; i < inputs.size(); ++i) names.of.say(body.inputs[i], inputs[i]);
    count(n, 1 + body.nodes.size() + body.inputs.size() + body.outputs.size());
    for (const node& inside : body.nodes) {
      room_.take(m_, n, copied_by(inside, names));
      add(renamed(inside, names));
    }
    std::vector<std::string> outputs;
    for (const std::string& name : body.outputs) {
      room_.take(m_, n, names.copied_by(name));
      outputs.push_back(names.of(name));
    }
    return outputs;
  }

  // Inputs and outputs count like nodes: a body may have no others.
  void count(const node& n, std::size_t more) {
    if (more > most_unfolded - unfolded_) {
      fail(m_, n, "sub-graphs come to more than " + std::to_string(most_unfolded) + " nodes, inputs and outputs");
    }
    unfolded_ += more;
  }

  struct renaming {
    std::string prefix;
    scoped_names of;
    // Bytes that the name takes in a copy, about. A short one may stand for a long one.
    [[nodiscard]] bytes copied_by(const std::string& name) const {
      return 2 * (32 + prefix.size() + std::max(name.size(), of(name).size()));
    }
  };
  // Bytes that a copy of the node takes, about.
  static bytes copied_by(const node& n, const renaming& names) {
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

  static node renamed(const node& from, renaming& names) {
    node n = from;
    n.name = names.prefix + from.name;
    for (std::string& input : n.inputs) input = names.of(input);
    for (std::string& output : n.outputs) {
      if (output.empty()) continue;
      names.of.say(output, names.prefix + output);
      output = names.prefix + output;
    }
    for (auto& [which, body] : n.bodies) body = reading(*body, names.of);
    return n;
  }
  // The body, reading values of the graphs around it by their new names.
  static std::shared_ptr<const subgraph> reading(const subgraph& from, scoped_names& names) {
    const scoped_names::inner_graph inside{names};
    auto body = std::make_shared<subgraph>(from);
    for (const std::string& own : from.inputs) names.hide(own);
    for (node& n : body->nodes) {
      for (std::string& input : n.inputs) input = names(input);
      for (const std::string& own : n.outputs) names.hide(own);
      for (auto& [which, inner] : n.bodies) inner = reading(*inner, names);
    }
    for (std::string& output : body->outputs) output = names(output);
    return body;
  }

  void add_named(const node& n, const char* op, std::vector<std::string> inputs, const std::string& output,
                 op::attributes attributes = {}) {
    if (output.empty()) return;
    count(n, 1);
    node made{n.name + ":" + op, op, std::move(inputs), {output}, std::move(attributes)};
    room_.take(m_, n, copied_by(made, {}));
    add(std::move(made));
  }
  std::string fresh(const node& n, const char* what) {
    std::string name = "@" + std::to_string(++bodies_) + "/" + what;
    if (types_.contains(name)) fail(m_, n, "its result '" + name + "' is there already");
    return name;
  }
  std::string keep(const node& n, const char* what, element type, shape s, std::int64_t value) {
    tensor t{type, std::move(s), std::vector<std::byte>(static_cast<std::size_t>(element_size(type)))};
    std::memcpy(t.data.data(), &value, t.data.size());
    std::string name = fresh(n, what);
    know(name, std::move(t));
    return name;
  }

  // One branch where the condition is known; else both are computed and one is chosen, element by element.
  void add_if(const node& n) {
    if (n.inputs.size() != 1) fail(m_, n, "has not one condition");
    const subgraph &yes = body_of(n, "then_branch"), &no = body_of(n, "else_branch");
    if (n.outputs.size() > std::min(yes.outputs.size(), no.outputs.size())) fail(m_, n, "its branches give less");
    if (const auto known = known_truth(n, n.inputs[0])) {
      const auto results = unfold(n, *known ? yes : no, {});
      for (std::size_t i = 0; i < n.outputs.size(); ++i) add_named(n, "Identity", {results[i]}, n.outputs[i]);
      return;
    }
    const value_info& said = type_of(n, n.inputs[0]);
    if (said.type != element::boolean || element_count(m_, called(n), said.shape) != 1) {
      fail(m_, n, "its condition is not one boolean");
    }
    const std::string condition = fresh(n, "condition");
    add_named(n, "Squeeze", {n.inputs[0]}, condition);
    const auto a = unfold(n, yes, {}), b = unfold(n, no, {});
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      const value_info &x = type_of(n, a[i]), &y = type_of(n, b[i]);
      if (x.type != y.type || x.shape != y.shape) {
        fail(m_, n,
             "its condition is known at run time only, and its branches give " + text_of(x.shape) + " and " +
                 text_of(y.shape) + " for result " + std::to_string(i));
      }
      add_named(n, "Where", {condition, a[i], b[i]}, n.outputs[i]);
    }
  }

  // As many times the body, behind one another, as the node says, if that is known now.
  void add_loop(const node& n) {
    const subgraph& body = body_of(n, "body");
    const auto given = [&](std::size_t i) { return i < n.inputs.size() && !n.inputs[i].empty(); };
    const tensor* trips = given(0) ? constant(n.inputs[0]) : nullptr;
    if (trips == nullptr || trips->type != element::i64 || trips->data.size() != sizeof(std::int64_t)) {
      fail(m_, n, "how often it runs is not known before it runs");
    }
    std::int64_t rounds = 0;
    std::memcpy(&rounds, trips->data.data(), sizeof rounds);
    const auto goes_on = [&](const std::string& name) {
      const auto known = known_truth(n, name);
      if (!known) fail(m_, n, "its condition is not known before it runs");
      return *known;
    };
    bool more = !given(1) || goes_on(n.inputs[1]);
    const std::size_t carried = n.inputs.size() < 2 ? 0 : n.inputs.size() - 2;
    if (body.outputs.size() < 1 + carried || n.outputs.size() + 1 > body.outputs.size()) {
      fail(m_, n, "its body's outputs do not fit its own");
    }
    std::vector<std::string> values(n.inputs.begin() + static_cast<std::ptrdiff_t>(n.inputs.size() - carried),
                                    n.inputs.end());
    std::vector<std::vector<std::string>> scanned(n.outputs.size() - std::min(carried, n.outputs.size()));
    for (std::int64_t i = 0; more && i < rounds; ++i) {
      std::vector<std::string> inputs{keep(n, "round", element::i64, {}, i),
                                      keep(n, "condition", element::boolean, {}, 1)};
      inputs.insert(inputs.end(), values.begin(), values.end());
      const auto results = unfold(n, body, inputs);
      for (std::size_t k = 0; k < carried; ++k) values[k] = results[1 + k];
      for (std::size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(results[1 + carried + k]);
      more = goes_on(results[0]);
    }
    for (std::size_t k = 0; k < n.outputs.size(); ++k) {
      if (k < carried) {
        add_named(n, "Identity", {values[k]}, n.outputs[k]);
      } else {
        add_scanned(n, scanned[k - carried], n.outputs[k], 0);
      }
    }
  }

  // The body once for each element of what is scanned.
  void add_scan(const node& n) {
    if (m_.opset < 9) fail(m_, n, "its kind of before opset 9 is not supported");
    const subgraph& body = body_of(n, "body");
    const auto many = attribute_or<std::int64_t>(m_, n, "num_scan_inputs", 0);
    if (many < 1 || many > std::ssize(n.inputs)) fail(m_, n, "num_scan_inputs is out of range");
    const std::size_t scans = static_cast<std::size_t>(many), carried = n.inputs.size() - scans;
    if (body.outputs.size() < carried || n.outputs.size() > body.outputs.size()) {
      fail(m_, n, "its body's outputs do not fit its own");
    }
    const auto listed = [&](const char* name, std::size_t i, std::size_t count) {
      const auto list = attribute_or(m_, n, name, shape{});
      if (!list.empty() && list.size() != count) fail(m_, n, std::string{name} + " has not one entry each");
      return list.empty() ? std::int64_t{0} : list[i];
    };
    std::vector<std::size_t> axes;
    std::int64_t rounds = -1;
    for (std::size_t k = 0; k < scans; ++k) {
      const shape& s = type_of(n, n.inputs[carried + k]).shape;
      const std::int64_t axis = listed("scan_input_axes", k, scans), rank = std::ssize(s);
      if (axis < -rank || axis >= rank) fail(m_, n, "axis " + std::to_string(axis) + " is out of range");
      axes.push_back(static_cast<std::size_t>(axis < 0 ? axis + rank : axis));
      if (rounds >= 0 && rounds != s[axes.back()]) fail(m_, n, "what it scans is not of one length");
      rounds = s[axes.back()];
    }
    std::vector<std::string> values(n.inputs.begin(), n.inputs.begin() + static_cast<std::ptrdiff_t>(carried));
    std::vector<std::vector<std::string>> gathered(n.outputs.size() - std::min(carried, n.outputs.size()));
    for (std::int64_t i = 0; i < rounds; ++i) {
      std::vector<std::string> inputs = values;
      for (std::size_t k = 0; k < scans; ++k) {
        const bool backward = listed("scan_input_directions", k, scans) != 0;
        inputs.push_back(fresh(n, "element"));
        add_named(n, "Gather",
                  {n.inputs[carried + k], keep(n, "index", element::i64, {}, backward ? rounds - 1 - i : i)},
                  inputs.back(), {{"axis", static_cast<std::int64_t>(axes[k])}});
      }
      const auto results = unfold(n, body, inputs);
      for (std::size_t k = 0; k < carried; ++k) values[k] = results[k];
      for (std::size_t k = 0; k < gathered.size(); ++k) gathered[k].push_back(results[carried + k]);
    }
    for (std::size_t k = 0; k < n.outputs.size(); ++k) {
      if (k < carried) {
        add_named(n, "Identity", {values[k]}, n.outputs[k]);
        continue;
      }
      const std::size_t which = k - carried, all = body.outputs.size() - carried;
      auto& parts = gathered[which];
      if (listed("scan_output_directions", which, all) != 0) std::reverse(parts.begin(), parts.end());
      add_scanned(n, parts, n.outputs[k], listed("scan_output_axes", which, all));
    }
  }

  // A result of each round, one behind the other along a new dimension.
  void add_scanned(const node& n, const std::vector<std::string>& of, const std::string& output, std::int64_t axis) {
    if (output.empty()) return;
    if (of.empty()) fail(m_, n, "it runs not once, so that '" + output + "' is empty");
    std::vector<std::string> parts;
    for (const std::string& each : of) {
      parts.push_back(fresh(n, "part"));
      if (m_.opset < 13) {
        add_named(n, "Unsqueeze", {each}, parts.back(), {{"axes", shape{axis}}});
      } else {
        add_named(n, "Unsqueeze", {each, keep(n, "axis", element::i64, {1}, axis)}, parts.back());
      }
    }
    add_named(n, "Concat", parts, output, {{"axis", axis}});
  }

  static constexpr std::size_t most_unfolded = std::size_t{1} << 14;

  description& m_;
  allowance& room_;
  value_types types_;
  std::vector<node> left_;
  std::size_t unfolded_ = 0;  // nodes of sub-graphs, and what they take and give
  std::uint64_t bodies_ = 0;
  const bool widen_;
  std::map<std::string, std::string> widened_;  // by constant of halves: the same in f32
};

}  // namespace

value_types infer(description& m, allowance& room, bool widen) {
  return inference{m, room, widen}.run();
}

}  // namespace berth::model
