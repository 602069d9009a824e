// Nodes with sub-graphs, whose content is put in their place.
#include <algorithm>
#include <cstring>
#include <memory>

#include "berth/model/input_error.hpp"
#include "model/onnx/inference.hpp"

namespace berth::model {

namespace {

// Returns the body, reading values of the graphs around it by their new names.
std::shared_ptr<const subgraph> reading(const subgraph& from, scoped_names& names) {
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

node renamed(const node& from, const std::string& prefix, scoped_names& names) {
  node n = from;
  n.name = prefix + from.name;
  for (std::string& input : n.inputs) input = names(input);
  for (std::string& output : n.outputs) {
    if (output.empty()) continue;
    names.say(output, prefix + output);
    output = prefix + output;
  }
  for (auto& [which, body] : n.bodies) body = reading(*body, names);
  return n;
}

}  // namespace

// Returns a condition's value if it is known now.
std::optional<bool> inference::known_truth(const node& n, const std::string& name) const {
  const tensor* t = constant(name);
  if (t == nullptr) return std::nullopt;
  if (t->type != element::boolean || t->data.size() != 1) fail(n, "its condition is not one boolean");
  return t->data[0] != std::byte{0};
}

const subgraph& inference::body_of(const node& n, const char* which) const {
  const auto found = n.bodies.find(which);
  if (found == n.bodies.end()) fail(n, std::string{"it has no "} + which);
  return *found->second;
}

// Adds the body's nodes, with new names for all its values; returns the names of its outputs.
std::vector<std::string> inference::unfold(const node& n, const subgraph& body,
                                           const std::vector<std::string>& inputs) {
  if (inputs.size() != body.inputs.size()) {
    fail(n, "its body takes " + std::to_string(body.inputs.size()) + " inputs, not " + std::to_string(inputs.size()));
  }
  renaming names{"@" + std::to_string(++bodies_) + "/", {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) names.of.say(body.inputs[i], inputs[i]);
  count(n, 1 + body.nodes.size() + body.inputs.size() + body.outputs.size());
  for (const node& inside : body.nodes) {
    room_.take(m_, n, copied_by(inside, names));
    add(renamed(inside, names.prefix, names.of));
  }
  std::vector<std::string> outputs;
  for (const std::string& name : body.outputs) {
    room_.take(m_, n, names.copied_by(name));
    outputs.push_back(names.of(name));
  }
  return outputs;
}

// Adds one branch if the condition is known; else both, and a choice, element by element.
void inference::add_if(const node& n) {
  if (n.inputs.size() != 1) fail(n, "has not one condition");
  const subgraph &yes = body_of(n, "then_branch"), &no = body_of(n, "else_branch");
  if (n.outputs.size() > std::min(yes.outputs.size(), no.outputs.size())) fail(n, "its branches give less");
  if (const auto known = known_truth(n, n.inputs[0])) {
    const auto results = unfold(n, *known ? yes : no, {});
    for (std::size_t i = 0; i < n.outputs.size(); ++i) add_named(n, "Identity", {results[i]}, n.outputs[i]);
    return;
  }
  const value_info& said = type_of(n, n.inputs[0]);
  if (said.type != element::boolean || element_count(m_, called(n), said.shape) != 1) {
    fail(n, "its condition is not one boolean");
  }
  const std::string condition = fresh(n, "condition");
  add_named(n, "Squeeze", {n.inputs[0]}, condition);
  const auto a = unfold(n, yes, {}), b = unfold(n, no, {});
  for (std::size_t i = 0; i < n.outputs.size(); ++i) choose(n, condition, a[i], b[i], n.outputs[i]);
}

// Chooses a sequence of two, element by element, if both are of one length.
void inference::choose(const node& n, const std::string& condition, const std::string& a, const std::string& b,
                       const std::string& output) {
  const std::string late = "its condition is known at run time only, and its branches give ";
  const list *x = list_of(a), *y = list_of(b);
  if (x != nullptr && y != nullptr && x->of.size() == y->of.size() && x->nothing == y->nothing) {
    list chosen{{}, x->type, x->nothing};
    for (std::size_t i = 0; i < x->of.size(); ++i) {
      chosen.of.push_back(fresh(n, "element"));
      choose(n, condition, x->of[i], y->of[i], chosen.of.back());
    }
    return keep_list(n, output, std::move(chosen));
  }
  if (x != nullptr || y != nullptr) fail(n, late + "sequences or optionals that differ, for '" + output + "'");
  const value_info &one = type_of(n, a), &other = type_of(n, b);
  if (one.type != other.type || one.shape != other.shape) {
    fail(n, late + text_of(one.shape) + " and " + text_of(other.shape) + " for '" + output + "'");
  }
  add_named(n, "Where", {condition, a, b}, output);
}

// Adds the body as many times, behind one another, as the node says, if that is known now.
void inference::add_loop(const node& n) {
  const subgraph& body = body_of(n, "body");
  const auto given = [&](std::size_t i) { return i < n.inputs.size() && !n.inputs[i].empty(); };
  const tensor* trips = given(0) ? constant(n.inputs[0]) : nullptr;
  if (trips == nullptr || trips->type != element::i64 || trips->data.size() != sizeof(std::int64_t)) {
    fail(n, "how often it runs is not known before it runs");
  }
  std::int64_t rounds = 0;
  std::memcpy(&rounds, trips->data.data(), sizeof rounds);
  const auto goes_on = [&](const std::string& name) {
    const auto known = known_truth(n, name);
    if (!known) fail(n, "its condition is not known before it runs");
    return *known;
  };
  bool more = !given(1) || goes_on(n.inputs[1]);
  const std::size_t carried = n.inputs.size() < 2 ? 0 : n.inputs.size() - 2;
  if (body.outputs.size() < 1 + carried || n.outputs.size() + 1 > body.outputs.size()) {
    fail(n, "its body's outputs do not fit its own");
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

// Adds the body once for each scanned element.
void inference::add_scan(const node& n) {
  if (m_.opset < 9) fail(n, "its kind of before opset 9 is not supported");
  const subgraph& body = body_of(n, "body");
  const auto many = attribute_or<std::int64_t>(m_, n, "num_scan_inputs", 0);
  if (many < 1 || many > std::ssize(n.inputs)) fail(n, "num_scan_inputs is out of range");
  const std::size_t scans = static_cast<std::size_t>(many), carried = n.inputs.size() - scans;
  if (body.outputs.size() < carried || n.outputs.size() > body.outputs.size()) {
    fail(n, "its body's outputs do not fit its own");
  }
  const auto listed = [&](const char* name, std::size_t i, std::size_t count) {
    const auto entries = attribute_or(m_, n, name, shape{});
    if (!entries.empty() && entries.size() != count) fail(n, std::string{name} + " has not one entry each");
    return entries.empty() ? std::int64_t{0} : entries[i];
  };
  std::vector<std::size_t> axes;
  std::int64_t rounds = -1;
  for (std::size_t k = 0; k < scans; ++k) {
    const shape& s = type_of(n, n.inputs[carried + k]).shape;
    const std::int64_t axis = listed("scan_input_axes", k, scans), rank = std::ssize(s);
    if (axis < -rank || axis >= rank) fail(n, "axis " + std::to_string(axis) + " is out of range");
    axes.push_back(static_cast<std::size_t>(axis < 0 ? axis + rank : axis));
    if (rounds >= 0 && rounds != s[axes.back()]) fail(n, "what it scans is not of one length");
    rounds = s[axes.back()];
  }
  std::vector<std::string> values(n.inputs.begin(), n.inputs.begin() + static_cast<std::ptrdiff_t>(carried));
  std::vector<std::vector<std::string>> gathered(n.outputs.size() - std::min(carried, n.outputs.size()));
  for (std::int64_t i = 0; i < rounds; ++i) {
    std::vector<std::string> inputs = values;
    for (std::size_t k = 0; k < scans; ++k) {
      const bool backward = listed("scan_input_directions", k, scans) != 0;
      inputs.push_back(fresh(n, "element"));
      add_named(n, "Gather", {n.inputs[carried + k], keep(n, "index", element::i64, {}, backward ? rounds - 1 - i : i)},
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

// Adds a result of each round, one behind the other along a new dimension.
void inference::add_scanned(const node& n, std::vector<std::string> of, const std::string& output, std::int64_t axis) {
  if (output.empty()) return;
  if (of.empty()) fail(n, "it runs not once, so that '" + output + "' is empty");
  add_joined(n, std::move(of), output, axis, true);
}

}  // namespace berth::model
