#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "berth/core/bytes.hpp"
#include "berth/model/input_error.hpp"
#include "model/files/text.hpp"
#include "model/onnx/operators.hpp"
#include "model/onnx/prepare.hpp"
#include "model/onnx/scoped_names.hpp"

namespace berth::model {
namespace {

using key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

std::string domain_of(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::int64_t opset_of(const std::vector<wire::opset>& all) {
  for (const auto& o : all) {
    if (domain_of(o.domain).empty()) return o.version;
  }
  return 0;
}

class expander {
 public:
  expander(const wire::model& m, const std::string& path, std::size_t file_size)
      : path_{path}, opset_{opset_of(m.opsets)}, left_{(bytes{64} << 20) + 16 * bytes{file_size}} {
    for (const auto& f : m.functions) by_name_.emplace(key{domain_of(f.domain), f.name, f.overload}, &f);
  }

  void expand(std::vector<wire::node>& nodes) {
    std::vector<wire::node> all;
    for (auto& n : nodes) {
      const wire::function* f = called_by(n);
      if (f != nullptr) {
        put_in_place(*f, n, all);
        continue;
      }
      for (auto& a : n.attributes) {
        for (auto& inner : a.graphs) expand(inner.nodes);
      }
      all.push_back(std::move(n));
    }
    nodes = std::move(all);
  }

 private:
  static constexpr std::size_t most_nodes = std::size_t{1} << 16;
  static constexpr int most_levels = 100;

  [[noreturn]] void fail(const wire::node& n, const std::string& what) const {
    const std::string& name = n.name.empty() && !n.outputs.empty() ? n.outputs[0] : n.name;
    throw input_error(path_, one_line("node '" + name + "' (" + n.op + "): " + what));
  }
  [[nodiscard]] const wire::function* called_by(const wire::node& n) const {
    const auto found = by_name_.find(key{domain_of(n.domain), n.op, n.overload});
    return found == by_name_.end() ? nullptr : found->second;
  }
  void spend(const wire::node& n, bytes size) {
    if (++nodes_ > most_nodes) fail(n, "local functions come to more than 65536 nodes");
    if (size > left_) fail(n, "local functions come to more than 64 MiB and 16 times the file");
    left_ -= size;
  }

  void put_in_place(const wire::function& f, const wire::node& call, std::vector<wire::node>& all) {
    if (++level_ > most_levels) fail(call, "local functions call each other without an end");
    if (call.inputs.size() > f.inputs.size() || call.outputs.size() > f.outputs.size()) {
      fail(call, "has more inputs or results than its function");
    }
    const std::string prefix = f.name + "#" + std::to_string(++calls_) + "/";
    scoped_names names;
    for (std::size_t i = 0; i < f.inputs.size(); ++i) {
      names.say(f.inputs[i], i < call.inputs.size() ? call.inputs[i] : "");
    }
    std::map<std::string, std::string> results;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      if (!call.outputs[i].empty()) results.emplace(f.outputs[i], call.outputs[i]);
    }
    const std::int64_t opset = opset_of(f.opsets);
    std::vector<wire::node> body;
    for (const auto& each : f.nodes) {
      if (opset != 0 && opset_ != 0 && domain_of(each.domain).empty() && !same_between(each.op, opset, opset_)) {
        fail(call, "its function is of opset " + std::to_string(opset) + ", where " + each.op +
                       " is another than in the model's opset " + std::to_string(opset_));
      }
      body.push_back(renamed(each, prefix, names, results, f, call));
      body.back().in_file = call.in_file;
    }
    for (const auto& [formal, actual] : results) {  // of what the body does not make itself
      if (names(formal) == actual) continue;
      wire::node same{.name = prefix + actual, .op = "Identity", .inputs = {names(formal)}, .outputs = {actual}};
      same.in_file = call.in_file;
      body.push_back(std::move(same));
    }
    expand(body);
    std::move(body.begin(), body.end(), std::back_inserter(all));
    --level_;
  }

  wire::node renamed(const wire::node& from, const std::string& prefix, scoped_names& names,
                     const std::map<std::string, std::string>& results, const wire::function& f,
                     const wire::node& call) {
    wire::node n = from;
    n.body = {};
    n.name = from.name.empty() ? "" : prefix + from.name;
    bytes size = sizeof(wire::node) + n.name.size();
    for (std::string& name : n.inputs) size += 32 + (name = names(name)).size();
    for (std::string& name : n.outputs) {
      if (name.empty()) continue;
      const auto result = results.find(name);
      const std::string made = result == results.end() ? prefix + name : result->second;
      names.say(name, made);
      size += 32 + (name = made).size();
    }
    std::vector<wire::attribute> attributes;
    for (auto& a : n.attributes) {
      std::optional<wire::attribute> meant = resolved(a, f, call);
      if (!meant) continue;
      size += sizeof(wire::attribute) + meant->text.size() + 4 * meant->numbers.size() + 8 * meant->integers.size();
      for (const auto& t : meant->tensors) {
        size += sizeof t + 4 * t.floats.size() + 8 * (t.doubles.size() + t.int32s.size() + t.int64s.size());
      }
      for (auto& g : meant->graphs) rename(g, prefix, names, f, call);
      attributes.push_back(*std::move(meant));
    }
    n.attributes = std::move(attributes);
    spend(call, size);
    return n;
  }
  // The graph of a node in a function. Its own values keep their names but for those that nodes around it have.
  void rename(wire::graph& g, const std::string& prefix, scoped_names& names, const wire::function& f,
              const wire::node& call) {
    const scoped_names::inner_graph inside{names};
    for (auto& v : g.inputs) names.say(v.name, prefix + v.name), v.name.insert(0, prefix);
    for (auto& t : g.initializers) names.say(t.name, prefix + t.name), t.name.insert(0, prefix);
    for (auto& n : g.nodes) n = renamed(n, prefix, names, {}, f, call);
    for (auto& v : g.outputs) v.name = names(v.name);
    g.values.clear();
  }

  // The attribute as the node that calls the function has it; nothing where neither that nor a default is there.
  static std::optional<wire::attribute> resolved(const wire::attribute& a, const wire::function& f,
                                                 const wire::node& call) {
    if (a.refers_to.empty()) return a;
    for (const auto* from : {&call.attributes, &f.defaults}) {
      for (const auto& each : *from) {
        if (each.name != a.refers_to) continue;
        wire::attribute meant = each;
        meant.name = a.name;
        return meant;
      }
    }
    return std::nullopt;
  }

  const std::string& path_;
  std::int64_t opset_;
  std::map<key, const wire::function*> by_name_;
  bytes left_;
  std::size_t nodes_ = 0;
  std::uint64_t calls_ = 0;
  int level_ = 0;
};

}  // namespace

void put_functions_in_place(wire::model& m, const std::string& path, std::size_t file_size) {
  if (m.functions.empty()) return;
  expander{m, path, file_size}.expand(m.graph->nodes);
}

}  // namespace berth::model
