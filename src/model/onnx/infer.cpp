#include "model/onnx/infer.hpp"

#include <algorithm>
#include <set>

#include "berth/model/input_error.hpp"
#include "model/onnx/fold.hpp"

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

value_types infer(description& m, allowance& room) {
  value_types types;
  for (const value_info& v : m.inputs) types.emplace(v.name, v);
  for (const auto& [name, t] : m.constants) types.emplace(name, value_info{name, t.type, t.shape});
  std::vector<node> left;
  for (node& n : m.nodes) {
    if (n.outputs.empty()) fail(m, n, "has no outputs");
    std::vector<tensor> folded;
    std::vector<tensor_type> results;
    try {
      if (n.op == "Constant") {
        folded.push_back(constant_of(m, n));
      } else {
        while (n.outputs.back().empty() && n.outputs.size() > 1) n.outputs.pop_back();
        const op::request q = request_of(m, n, types);
        results = op::infer(q);
        folded = fold(m, n, q, results, room);
      }
    } catch (const op::refusal& why) {
      fail(m, n, why.what());
    }
    for (std::size_t i = 0; i < folded.size(); ++i) {
      (void)element_count(m, called(n), folded[i].shape);
      if (n.outputs[i].empty()) continue;
      types.insert_or_assign(n.outputs[i], value_info{n.outputs[i], folded[i].type, folded[i].shape});
      m.constants.insert_or_assign(n.outputs[i], std::move(folded[i]));
    }
    if (!folded.empty()) continue;
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i].empty()) continue;
      types.insert_or_assign(n.outputs[i], value_info{n.outputs[i], results[i].type, results[i].shape});
    }
    left.push_back(std::move(n));
  }
  m.nodes = std::move(left);
  drop_unused(m);
  for (const std::string& name : m.outputs) {
    if (!types.contains(name)) throw input_error(m.source, "output '" + name + "' is computed by no node");
  }
  return types;
}

}  // namespace berth::model
