#include <algorithm>
#include <map>
#include <tuple>
#include <type_traits>

#include "berth/core/bytes.hpp"
#include "berth/model/input_error.hpp"
#include "model/files/text.hpp"
#include "model/onnx/operators.hpp"
#include "model/onnx/parts.hpp"
#include "model/onnx/prepare.hpp"
#include "model/onnx/scoped_names.hpp"

namespace berth::model {
namespace {

using key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

std::string domain_of(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

// The memory that a copy of a message takes. Raw bytes count too: each constant that is made of them copies them.
struct size_of_copy {
  static bytes of(const std::string& text) { return sizeof text + text.size(); }
  static bytes of(const std::pair<std::string, std::string>& entry) { return of(entry.first) + of(entry.second); }
  template <class T>
  static bytes of(const std::vector<T>& all) {
    if constexpr (std::is_arithmetic_v<T>) {
      return all.size() * sizeof(T);
    } else {
      bytes size = 0;
      for (const T& each : all) size += of(each);
      return size;
    }
  }
  template <class... Parts>
  static bytes sum(const Parts&... parts) {
    return (of(parts) + ...);
  }

  static bytes of(const wire::dimension& d) { return sizeof d + d.name.size(); }
  static bytes of(const wire::type& t) { return sizeof t + sum(t.shape, t.inner); }
  static bytes of(const wire::value_info& v) { return sum(v.name, v.type); }
  static bytes of(const wire::tensor& t) {
    return sizeof t + sum(t.name, t.dims, t.external_data, t.floats, t.doubles, t.int32s, t.int64s, t.uint64s) +
           (t.raw ? t.raw->size() : 0);
  }
  static bytes of(const wire::sparse_tensor& t) { return sum(t.values, t.indices); }
  static bytes of(const wire::attribute& a) {
    return sizeof a + sum(a.name, a.refers_to, a.text, a.numbers, a.integers, a.texts, a.tensors, a.graphs) +
           of(a.sparse_tensors);
  }
  static bytes of(const wire::node& n) {
    return sizeof n + sum(n.name, n.op, n.domain, n.overload, n.inputs, n.outputs, n.attributes);
  }
  static bytes of(const wire::graph& g) {
    return sizeof g + sum(g.name, g.nodes, g.initializers, g.sparse_initializers, g.inputs, g.outputs, g.values);
  }
};

class expander {
 public:
  expander(const wire::model& m, const std::string& path, std::size_t file_size)
      : path_{path}, opset_{opset_of(m.opsets, 0)}, left_{(bytes{64} << 20) + 16 * bytes{file_size}} {
    for (const auto& each : m.read_elsewhere) left_ += 16 * bytes{each.size()};
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
  void count_node(const wire::node& call) {
    if (++nodes_ > most_nodes) fail(call, "local functions come to more than 65536 nodes");
  }
  // Takes the bytes off what is left. Copies come after it.
  void spend(const wire::node& call, bytes size) {
    if (size > left_) fail(call, "local functions come to more than 64 MiB and 16 times the file");
    left_ -= size;
  }

  void put_in_place(const wire::function& f, const wire::node& call, std::vector<wire::node>& all) {
    if (++level_ > most_levels) fail(call, "local functions call each other without an end");
    if (call.inputs.size() > f.inputs.size() || call.outputs.size() > f.outputs.size()) {
      fail(call, "has more inputs or results than its function");
    }
    spend(call, 64 * bytes{f.inputs.size() + call.outputs.size() + f.opsets.size()});
    const std::string prefix = f.name + "#" + std::to_string(++calls_) + "/";
    scoped_names names;
    for (std::size_t i = 0; i < f.inputs.size(); ++i) {
      names.say(f.inputs[i], i < call.inputs.size() ? call.inputs[i] : "");
    }
    std::map<std::string, std::string> results;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      if (!call.outputs[i].empty()) results.emplace(f.outputs[i], call.outputs[i]);
    }
    const std::int64_t opset = opset_of(f.opsets, 0);
    std::vector<wire::node> body;
    for (const auto& each : f.nodes) {
      if (opset != 0 && opset_ != 0 && domain_of(each.domain).empty() && !same_between(each.op, opset, opset_)) {
        fail(call, "its function is of opset " + std::to_string(opset) + ", where " + each.op +
                       " is another than in the model's opset " + std::to_string(opset_));
      }
      spend(call, size_of_copy::of(each));
      rename(body.emplace_back(each), prefix, names, results, f, call);
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

  void replace(std::string& name, const std::string& by, const wire::node& call) {
    spend(call, by.size());
    name = by;
  }
  void put_before(std::string& name, const std::string& prefix, const wire::node& call) {
    spend(call, prefix.size());
    name.insert(0, prefix);
  }

  // Changes the copy of a node of the function to the node in the place of the call.
  void rename(wire::node& n, const std::string& prefix, scoped_names& names,
              const std::map<std::string, std::string>& results, const wire::function& f, const wire::node& call) {
    count_node(call);
    n.body = {};
    if (!n.name.empty()) put_before(n.name, prefix, call);
    for (std::string& name : n.inputs) replace(name, names(name), call);
    for (std::string& name : n.outputs) {
      if (name.empty()) continue;
      const auto result = results.find(name);
      const std::string made = result == results.end() ? prefix + name : result->second;
      names.say(name, made);
      replace(name, made, call);
    }
    std::vector<wire::attribute> attributes;
    for (auto& a : n.attributes) {
      const origin from = resolve(a, f, call);
      if (from == origin::nowhere) continue;
      for (auto& g : a.graphs) {
        if (from == origin::caller) {
          count_nodes(g, call);  // its names are those around the call
        } else {
          rename(g, prefix, names, f, call);
        }
      }
      attributes.push_back(std::move(a));
    }
    n.attributes = std::move(attributes);
  }
  // Renames the graph of a node in a function. Its own values keep their names but for those that nodes around it have.
  void rename(wire::graph& g, const std::string& prefix, scoped_names& names, const wire::function& f,
              const wire::node& call) {
    if (++level_ > most_levels) fail(call, "graphs of its function refer to each other without an end");
    const scoped_names::inner_graph inside{names};
    const auto make_own = [&](std::string& name) {
      const std::string from = name;
      put_before(name, prefix, call);
      names.say(from, name);
    };
    for (auto& v : g.inputs) make_own(v.name);
    for (auto& t : g.initializers) make_own(t.name);
    for (auto& n : g.nodes) rename(n, prefix, names, {}, f, call);
    for (auto& v : g.outputs) replace(v.name, names(v.name), call);
    g.values.clear();
    --level_;
  }
  void count_nodes(const wire::graph& g, const wire::node& call) {
    for (const auto& n : g.nodes) {
      count_node(call);
      for (const auto& a : n.attributes) {
        for (const auto& inner : a.graphs) count_nodes(inner, call);
      }
    }
  }

  // Sets the attribute to the calling node's, or else to the function's default. Returns where it was found.
  enum class origin : std::uint8_t { function, caller, nowhere };
  origin resolve(wire::attribute& a, const wire::function& f, const wire::node& call) {
    if (a.refers_to.empty()) return origin::function;
    spend(call, call.attributes.size() + f.defaults.size());
    for (const auto* from : {&call.attributes, &f.defaults}) {
      for (const auto& each : *from) {
        if (each.name != a.refers_to) continue;
        spend(call, size_of_copy::of(each));
        std::string name = std::move(a.name);
        a = each;
        a.name = std::move(name);
        return from == &call.attributes ? origin::caller : origin::function;
      }
    }
    return origin::nowhere;
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
