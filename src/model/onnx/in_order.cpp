// A file of ONNX with its nodes in another order: the bytes of its nodes change places, no other byte moves. Nodes that
// run again stand there again, with names of their own.

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "berth/core/contract.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "model/files/text.hpp"
#include "model/onnx/node_uses.hpp"
#include "model/onnx/parse.hpp"
#include "model/onnx/parts.hpp"
#include "model/onnx/prepare.hpp"
#include "model/onnx/wire.hpp"

namespace berth::model {
namespace {

using std::string_view;

// Returns the fields of a message with this number, which are messages themselves.
std::vector<wire::field> fields_of(string_view text, std::uint64_t number) {
  std::vector<wire::field> found;
  while (!text.empty()) {
    const auto f = wire::take_field(text);
    if (!f) return {};
    if (f->number == number) found.push_back(*f);
  }
  return found;
}

// A node of the file, once more or for the first time. `reads` and `writes`: names of the file that have others here.
using names = std::map<std::string, std::string>;
struct run_of {
  std::uint32_t node = 0;
  std::uint32_t times = 1;
  names reads{}, writes{};
  std::string name{};  // where it runs again and the file calls it something
};

// All nodes of the file in an order that has `planned` in this one.
class merger {
 public:
  merger(const std::string& path, const wire::graph& g, const std::vector<std::uint32_t>& planned)
      : path_{path},
        g_{g},
        before_{makers_of(g)},
        after_(before_.size()),
        waits_(before_.size()),
        state_(before_.size()),
        planned_(before_.size()),
        stale_(before_.size()),
        times_(before_.size()) {
    for (const std::uint32_t v : planned) {
      state_[v] = planned_later;
      planned_[v] = true;
    }
    for (std::uint32_t v = 0; v < before_.size(); ++v) {
      waits_[v] = before_[v].size();
      for (const std::uint32_t p : before_[v]) after_[p].push_back(v);
      if (waits_[v] == 0 && state_[v] == free) ready_.push(v);
    }
  }

  std::vector<run_of> run(const std::vector<std::uint32_t>& planned) {
    for (const std::uint32_t v : planned) {
      if (state_[v] == placed) {
        repeat(v);
        continue;
      }
      place_ready_below(v);
      for (const std::uint32_t p : needed_by(v)) place(p);
      place(v);
    }
    place_ready_below(UINT32_MAX);
    outputs_keep_their_names();
    return std::move(runs_);
  }
  // Names made here, and those of the file that they stand for.
  [[nodiscard]] const names& made() const noexcept { return made_; }

 private:
  enum state : std::uint8_t { free, planned_later, placed };

  void place(std::uint32_t v) {
    state_[v] = placed;
    append(v);
    for (const std::uint32_t u : after_[v]) {
      if (--waits_[u] == 0 && state_[u] == free) ready_.push(u);
    }
  }

  // Repeats v. Unplanned nodes (views, among others) that read its results are made again before their next use.
  void repeat(std::uint32_t v) {
    append(v);
    std::vector<std::uint32_t> open{v};
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      for (const std::uint32_t u : after_[at]) {
        if (state_[u] != placed || planned_[u] || stale_[u]) continue;
        const auto& node = g_.nodes[u];
        if (runs_once(node)) continue;  // what it has made still holds
        stale_[u] = true;
        open.push_back(u);
      }
    }
  }
  void append(std::uint32_t v) {
    make_anew(stale_before(v));
    append_as_is(v);
  }
  void make_anew(const std::set<std::uint32_t>& all) {
    for (const std::uint32_t p : all) {
      stale_[p] = false;
      append_as_is(p);
    }
  }
  // Returns nodes before v, over nodes that are `wanted` themselves: by rising number, so that each follows its
  // producers.
  template <class Wanted>
  [[nodiscard]] std::set<std::uint32_t> all_before(std::uint32_t v, Wanted wanted) const {
    std::set<std::uint32_t> all;
    std::vector<std::uint32_t> open{v};
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      for (const std::uint32_t p : before_[at]) {
        if (wanted(p) && all.insert(p).second) open.push_back(p);
      }
    }
    return all;
  }
  [[nodiscard]] std::set<std::uint32_t> stale_before(std::uint32_t v) const {
    return all_before(v, [&](std::uint32_t p) { return stale_[p]; });
  }
  void append_as_is(std::uint32_t v) {
    const auto& node = g_.nodes[v];
    run_of made{v, ++times_[v]};
    if (!now_.empty()) {
      std::set<std::string> read{node.inputs.begin(), node.inputs.end()};
      add_captured(node, read);
      for (const std::string& name : read) {
        if (const auto it = now_.find(name); it != now_.end()) made.reads.insert(*it);
      }
    }
    for (const std::string& name : node.outputs) {
      if (times_[v] > 1 && !name.empty()) made.writes[name] = now_[name] = fresh(name, times_[v]);
    }
    if (times_[v] > 1 && !node.name.empty()) made.name = unused(node.name, times_[v], taken_by_nodes_);
    runs_.push_back(std::move(made));
  }

  std::string fresh(const std::string& name, std::uint32_t times) {
    std::string made = unused(name, times, taken_);
    made_[made] = name;
    return made;
  }
  std::string unused(const std::string& name, std::uint32_t times, std::set<std::string>& taken) {
    if (taken_.empty()) add_names(g_);
    std::string made = name + "#" + std::to_string(times);
    while (!taken.insert(made).second) made += "'";
    return made;
  }
  void add_names(const wire::graph& g) {
    for (const auto& v : g.inputs) taken_.insert(v.name);
    for (const auto& t : g.initializers) taken_.insert(t.name);
    for (const auto& t : g.sparse_initializers) taken_.insert(t.values.name);
    for (const auto& n : g.nodes) {
      taken_.insert(n.outputs.begin(), n.outputs.end());
      taken_by_nodes_.insert(n.name);
      for (const auto& a : n.attributes) {
        for (const auto& inner : a.graphs) add_names(inner);
      }
    }
  }

  // Keeps an output's name in its last run; the first has the other name.
  void outputs_keep_their_names() {
    std::map<std::string, std::uint32_t> maker;
    for (std::uint32_t v = 0; v < before_.size(); ++v) {
      for (const std::string& name : g_.nodes[v].outputs) maker.emplace(name, v);
    }
    names swapped;
    for (const auto& output : g_.outputs) {
      const std::string& name = output.name;
      if (const auto it = maker.find(name); it != maker.end() && stale_[it->second]) {
        make_anew(stale_before(it->second));
        make_anew({it->second});
      }
      const auto last = now_.find(name);
      if (last == now_.end() || swapped.contains(name)) continue;
      swapped[name] = last->second;
      swapped[last->second] = name;
    }
    if (swapped.empty()) return;
    for (run_of& made : runs_) {
      const auto& node = g_.nodes[made.node];
      std::set<std::string> read{node.inputs.begin(), node.inputs.end()};
      add_captured(node, read);
      for (const std::string& name : read) swap_one(swapped, name, made.reads);
      for (const std::string& name : node.outputs) swap_one(swapped, name, made.writes);
    }
  }
  static void swap_one(const names& swapped, const std::string& name, names& of) {
    const auto known = of.find(name);
    const auto other = swapped.find(known == of.end() ? name : known->second);
    if (other != swapped.end()) of[name] = other->second;
  }

  void place_ready_below(std::uint32_t v) {
    while (!ready_.empty() && ready_.top() < v) {
      const std::uint32_t at = ready_.top();
      ready_.pop();
      if (state_[at] == free) place(at);
    }
  }
  [[nodiscard]] std::set<std::uint32_t> needed_by(std::uint32_t v) const {
    return all_before(v, [&](std::uint32_t p) {
      if (state_[p] == planned_later) fail(v, p);
      return state_[p] != placed;
    });
  }
  [[noreturn]] void fail(std::uint32_t v, std::uint32_t p) const {
    const auto name = [&](std::uint32_t n) {
      const auto& node = g_.nodes[n];
      return node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
    };
    throw input_error(path_, one_line("node '" + name(v) + "' would run before '" + name(p) +
                                      "', which it needs by a value that takes no memory"));
  }

  const std::string& path_;
  const wire::graph& g_;
  std::vector<std::vector<std::uint32_t>> before_, after_;
  std::vector<std::size_t> waits_;
  std::vector<state> state_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready_;
  std::vector<run_of> runs_;
  std::vector<bool> planned_;
  std::vector<bool> stale_;  // made of what has run again since
  std::vector<std::uint32_t> times_;
  names now_;                                     // of the file's names: what they are called by now
  names made_;                                    // see made()
  std::set<std::string> taken_, taken_by_nodes_;  // once a name is made: those of the file, and that one
};

// Numbers of fields, as onnx.proto has them.
constexpr std::uint64_t graph_of_model = 7, node_of_graph = 1, output_of_graph = 12, value_of_graph = 13,
                        input_of_node = 1, output_of_node = 2, name_of_node = 3, attribute_of_node = 5,
                        graph_of_attribute = 6, graphs_of_attribute = 11, name_of_value = 1;

string_view renamed(string_view name, const names& others) {
  const auto it = others.find(std::string{name});
  return it == others.end() ? name : string_view{it->second};
}

// Returns a copy of a message, byte for byte but for the text that `change` appends in the place of a field; `change`
// returns whether it did.
template <class Change>
std::string changed(string_view message, Change change) {
  std::string text;
  while (!message.empty()) {
    const auto f = wire::take_field(message);
    if (!f) break;  // the file has been parsed
    if (f->is != wire::form::text || !change(text, *f)) text += f->whole;
  }
  return text;
}

std::string renamed_graph(string_view body, const wire::graph& g, names others);

// Returns the attribute with the graphs inside it reading other names.
std::string renamed_attribute(string_view body, const wire::attribute& a, const names& others) {
  std::size_t next = 0;
  return changed(body, [&](std::string& text, const wire::field& f) {
    if (f.number != graph_of_attribute && f.number != graphs_of_attribute) return false;
    if (next == a.graphs.size()) return false;  // the parts of one graph
    wire::append_text(text, f.number, renamed_graph(f.body, a.graphs[next++], others));
    return true;
  });
}

std::string renamed_node(const wire::node& n, const names& reads, const names& writes, const std::string& name) {
  std::size_t next = 0;
  return changed(n.body, [&](std::string& text, const wire::field& f) {
    switch (f.number) {
      case input_of_node: wire::append_text(text, f.number, renamed(f.body, reads)); return true;
      case output_of_node: wire::append_text(text, f.number, renamed(f.body, writes)); return true;
      case name_of_node: wire::append_text(text, f.number, name.empty() ? f.body : string_view{name}); return true;
      case attribute_of_node:
        if (next == n.attributes.size()) return false;
        wire::append_text(text, f.number, renamed_attribute(f.body, n.attributes[next++], reads));
        return true;
      default: return false;
    }
  });
}

std::string renamed_value(string_view body, const names& others) {
  return changed(body, [&](std::string& text, const wire::field& f) {
    if (f.number != name_of_value) return false;
    wire::append_text(text, f.number, renamed(f.body, others));
    return true;
  });
}

// Returns a graph inside a node, with the other names for values of the graph around it.
std::string renamed_graph(string_view body, const wire::graph& g, names others) {
  for (const auto& v : g.inputs) others.erase(v.name);
  for (const auto& t : g.initializers) others.erase(t.name);
  for (const auto& n : g.nodes) {
    for (const std::string& own : n.outputs) others.erase(own);
  }
  std::size_t next = 0;
  return changed(body, [&](std::string& text, const wire::field& f) {
    if (f.number == node_of_graph) {
      if (next == g.nodes.size()) return false;
      wire::append_text(text, f.number, renamed_node(g.nodes[next++], others, {}, ""));
    } else if (f.number == output_of_graph) {
      wire::append_text(text, f.number, renamed_value(f.body, others));
    } else {
      return false;
    }
    return true;
  });
}

// Returns the bytes of a node in the new file. `slot`: its place in the old one.
std::string text_of(const wire::field& slot, const wire::node& node, const run_of& r) {
  if (r.reads.empty() && r.writes.empty() && r.times == 1) return std::string{slot.whole};
  std::string text;
  wire::append_text(text, node_of_graph, renamed_node(node, r.reads, r.writes, r.name));
  return text;
}

// Returns the file's shapes of values with new names.
std::string shapes_of(const wire::graph& g, const names& made) {
  std::map<string_view, const wire::value_info*> known;
  for (const auto* all : {&g.values, &g.outputs}) {
    for (const auto& v : *all) known.emplace(v.name, &v);
  }
  std::string text;
  for (const auto& [name, of] : made) {
    const auto it = known.find(of);
    if (it != known.end()) wire::append_text(text, value_of_graph, renamed_value(it->second->body, {{of, name}}));
  }
  return text;
}

}  // namespace

std::string onnx_in_order(const std::string& path, string_view file, const shapes_graph& read,
                          std::span<const std::uint32_t> steps, source_location where) {
  wire::model parsed = wire::parse(path, file);
  if (!parsed.functions.empty()) throw input_error(path, "it has local functions, whose nodes cannot be ordered anew");
  sort_nodes(parsed, path);
  const wire::graph& g = *parsed.graph;
  const auto graphs = fields_of(file, graph_of_model);
  const std::size_t count = g.nodes.size();
  const string_view graph = graphs.size() == 1 ? graphs[0].body : string_view{};
  const std::vector<wire::field> nodes = fields_of(graph, node_of_graph);
  if (nodes.size() != count) throw input_error(path, "its graph is written in pieces, which cannot be ordered anew");
  std::vector<std::uint32_t> sorted(count);  // by node of the file
  for (std::uint32_t n = 0; n < count; ++n) sorted[g.nodes[n].in_file] = n;
  std::vector<std::uint32_t> planned;
  std::vector<bool> seen(read.node_of.size(), false);
  for (const std::uint32_t n : steps) {
    expects(n < seen.size() && read.node_of[n] < count, "onnx_in_order: a step is a node of the graph", where);
    expects(!seen[n] || std::ranges::find(read.once, n) == read.once.end(), "onnx_in_order: a node runs once", where);
    seen[n] = true;
    planned.push_back(sorted[read.node_of[n]]);
  }
  expects(std::ranges::find(seen, false) == seen.end(), "onnx_in_order: each node stands there", where);
  merger merged{path, g, planned};
  const std::vector<run_of> runs = merged.run(planned);
  if (std::ranges::count(runs, 1u, &run_of::times) != static_cast<std::ptrdiff_t>(count)) {
    throw input_error(path, "a node of its graph needs what a later one makes");
  }

  // Puts the runs in the places of the nodes, further ones behind the last place.
  std::string body;
  std::size_t next = 0;
  const auto append_run = [&] {
    const run_of& r = runs[next++];
    body += text_of(nodes[g.nodes[r.node].in_file], g.nodes[r.node], r);
  };
  const char* done = graph.data();
  for (const wire::field& slot : nodes) {
    body.append(done, slot.whole.data());
    append_run();
    if (&slot == &nodes.back()) {
      while (next < runs.size()) append_run();
    }
    done = slot.whole.data() + slot.whole.size();
  }
  body.append(done, graph.data() + graph.size());
  body += shapes_of(g, merged.made());
  std::string made{file.data(), graphs[0].whole.data()};
  if (body.size() == graph.size()) {
    made.append(graphs[0].whole.data(), graph.data());
    made += body;
  } else {
    wire::append_text(made, graph_of_model, body);
  }
  made.append(graph.data() + graph.size(), file.data() + file.size());
  return made;
}

}  // namespace berth::model
