// A file of ONNX with its nodes in another order: the bytes of its nodes change places, no other byte moves. Nodes that
// run again stand there again, with names of their own.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "berth/core/contract.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "model/files/text.hpp"
#include "model/onnx/node_uses.hpp"
#include "model/onnx/proto.hpp"

namespace berth::model {
namespace {

using std::string_view;

// A field of a message of protobuf: a tag, and what it is of.
struct field {
  std::uint64_t number = 0;
  string_view whole;
  string_view body;  // of one with a length: a message, among others
};

std::optional<std::uint64_t> varint(string_view& text) {
  std::uint64_t n = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto b = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    n |= std::uint64_t{b & 127u} << shift;
    if (b < 128) return n;
  }
  return std::nullopt;
}

// The first field of `text`, which is cut off it; nothing where it is none (the parser has said so before).
std::optional<field> next_field(string_view& text) {
  const string_view from = text;
  const auto tag = varint(text);
  if (!tag) return std::nullopt;
  field f{*tag >> 3, {}, {}};
  std::uint64_t length = 0;
  switch (*tag & 7) {
    case 0:
      if (!varint(text)) return std::nullopt;
      break;
    case 1: length = 8; break;
    case 5: length = 4; break;
    case 2: {
      const auto said = varint(text);
      if (!said || *said > text.size()) return std::nullopt;
      length = *said;
      f.body = text.substr(0, static_cast<std::size_t>(length));
      break;
    }
    default: return std::nullopt;
  }
  if (length > text.size()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(length));
  f.whole = from.substr(0, from.size() - text.size());
  return f;
}

// The fields of a message with this number, which are messages themselves.
std::vector<field> fields_of(string_view text, int number) {
  std::vector<field> found;
  while (!text.empty()) {
    const auto f = next_field(text);
    if (!f) return {};
    if (f->number == static_cast<std::uint64_t>(number)) found.push_back(*f);
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
  merger(const std::string& path, const onnx::GraphProto& g, const std::vector<std::uint32_t>& planned)
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

  // v again. What nobody planned (views, among others) and reads what v made is made again where it is wanted.
  void repeat(std::uint32_t v) {
    append(v);
    std::vector<std::uint32_t> open{v};
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      for (const std::uint32_t u : after_[at]) {
        if (state_[u] != placed || planned_[u] || stale_[u]) continue;
        const auto& node = g_.node(static_cast<int>(u));
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
  // Nodes before v, over nodes that are `wanted` themselves: by rising number, so that each comes behind what it needs.
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
    const auto& node = g_.node(static_cast<int>(v));
    run_of made{v, ++times_[v]};
    if (!now_.empty()) {
      std::set<std::string> read{node.input().begin(), node.input().end()};
      add_captured(node, read);
      for (const std::string& name : read) {
        if (const auto it = now_.find(name); it != now_.end()) made.reads.insert(*it);
      }
    }
    for (const std::string& name : node.output()) {
      if (times_[v] > 1 && !name.empty()) made.writes[name] = now_[name] = fresh(name, times_[v]);
    }
    if (times_[v] > 1 && !node.name().empty()) made.name = unused(node.name(), times_[v], taken_by_nodes_);
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
  void add_names(const onnx::GraphProto& g) {
    for (const auto& v : g.input()) taken_.insert(v.name());
    for (const auto& t : g.initializer()) taken_.insert(t.name());
    for (const auto& t : g.sparse_initializer()) taken_.insert(t.values().name());
    for (const auto& n : g.node()) {
      taken_.insert(n.output().begin(), n.output().end());
      taken_by_nodes_.insert(n.name());
      for (const auto& a : n.attribute()) {
        if (a.has_g()) add_names(a.g());
        for (const auto& inner : a.graphs()) add_names(inner);
      }
    }
  }

  // The last of what was an output is the output, and the first has the other name.
  void outputs_keep_their_names() {
    std::map<std::string, std::uint32_t> maker;
    for (std::uint32_t v = 0; v < before_.size(); ++v) {
      for (const std::string& name : g_.node(static_cast<int>(v)).output()) maker.emplace(name, v);
    }
    names swapped;
    for (const auto& output : g_.output()) {
      const std::string& name = output.name();
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
      const auto& node = g_.node(static_cast<int>(made.node));
      std::set<std::string> read{node.input().begin(), node.input().end()};
      add_captured(node, read);
      for (const std::string& name : read) swap_one(swapped, name, made.reads);
      for (const std::string& name : node.output()) swap_one(swapped, name, made.writes);
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
      const auto& node = g_.node(static_cast<int>(n));
      return node.name().empty() && node.output_size() != 0 ? node.output(0) : node.name();
    };
    throw input_error(path_, one_line("node '" + name(v) + "' would run before '" + name(p) +
                                      "', which it needs by a value that takes no memory"));
  }

  const std::string& path_;
  const onnx::GraphProto& g_;
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

void rename(std::string& name, const names& others) {
  if (const auto it = others.find(name); it != others.end()) name = it->second;
}

// Names that a sub-graph reads of the graph around it.
void rename_captured(onnx::GraphProto& g, names others) {
  for (const auto& v : g.input()) others.erase(v.name());
  for (const auto& t : g.initializer()) others.erase(t.name());
  for (const auto& n : g.node()) {
    for (const std::string& own : n.output()) others.erase(own);
  }
  for (auto& n : *g.mutable_node()) {
    for (std::string& name : *n.mutable_input()) rename(name, others);
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_g()) rename_captured(*a.mutable_g(), others);
      for (auto& inner : *a.mutable_graphs()) rename_captured(inner, others);
    }
  }
  for (auto& v : *g.mutable_output()) rename(*v.mutable_name(), others);
}

void append_varint(std::string& text, std::uint64_t n) {
  for (; n >= 128; n >>= 7) text += static_cast<char>((n & 127) | 128);
  text += static_cast<char>(n);
}

void append_field(std::string& text, int number, const std::string& body) {
  append_varint(text, static_cast<std::uint64_t>(number) << 3 | 2);
  append_varint(text, body.size());
  text += body;
}

// The bytes of a node as it stands in the file made.
std::string text_of(const field& slot, onnx::NodeProto node, const run_of& r) {
  if (r.reads.empty() && r.writes.empty() && r.times == 1) return std::string{slot.whole};
  if (!r.name.empty()) node.set_name(r.name);
  for (std::string& name : *node.mutable_input()) rename(name, r.reads);
  for (std::string& name : *node.mutable_output()) rename(name, r.writes);
  for (auto& a : *node.mutable_attribute()) {
    if (a.has_g()) rename_captured(*a.mutable_g(), r.reads);
    for (auto& inner : *a.mutable_graphs()) rename_captured(inner, r.reads);
  }
  std::string text;
  append_field(text, onnx::GraphProto::kNodeFieldNumber, node.SerializeAsString());
  return text;
}

// What the file says of the shapes of those whose names are new.
std::string shapes_of(const onnx::GraphProto& g, const names& made) {
  std::map<std::string_view, const onnx::ValueInfoProto*> known;
  for (const auto* all : {&g.value_info(), &g.output()}) {
    for (const auto& v : *all) known.emplace(v.name(), &v);
  }
  std::string text;
  for (const auto& [name, of] : made) {
    const auto it = known.find(of);
    if (it == known.end()) continue;
    onnx::ValueInfoProto v = *it->second;
    v.set_name(name);
    append_field(text, onnx::GraphProto::kValueInfoFieldNumber, v.SerializeAsString());
  }
  return text;
}

}  // namespace

std::string onnx_in_order(const std::string& path, string_view file, const shapes_graph& read,
                          std::span<const std::uint32_t> steps, source_location where) {
  const onnx::ModelProto proto = parse_onnx(path, file);
  const auto graphs = fields_of(file, onnx::ModelProto::kGraphFieldNumber);
  const auto count = static_cast<std::size_t>(proto.graph().node_size());
  const string_view graph = graphs.size() == 1 ? graphs[0].body : string_view{};
  const std::vector<field> nodes = fields_of(graph, onnx::GraphProto::kNodeFieldNumber);
  if (nodes.size() != count) throw input_error(path, "its graph is written in pieces, which cannot be ordered anew");
  std::vector<std::uint32_t> planned;
  std::vector<bool> seen(read.node_of.size(), false);
  for (const std::uint32_t n : steps) {
    expects(n < seen.size() && read.node_of[n] < count, "onnx_in_order: a step is a node of the graph", where);
    expects(!seen[n] || std::ranges::find(read.once, n) == read.once.end(), "onnx_in_order: a node runs once", where);
    seen[n] = true;
    planned.push_back(read.node_of[n]);
  }
  expects(std::ranges::find(seen, false) == seen.end(), "onnx_in_order: each node stands there", where);
  merger merged{path, proto.graph(), planned};
  const std::vector<run_of> runs = merged.run(planned);
  if (std::ranges::count(runs, 1u, &run_of::times) != static_cast<std::ptrdiff_t>(count)) {
    throw input_error(path, "a node of its graph needs what a later one makes");
  }

  // The runs in the places of the nodes, those that are more behind the last place.
  std::string body;
  std::size_t next = 0;
  const auto append_run = [&] {
    const run_of& r = runs[next++];
    body += text_of(nodes[r.node], proto.graph().node(static_cast<int>(r.node)), r);
  };
  const char* done = graph.data();
  for (const field& slot : nodes) {
    body.append(done, slot.whole.data());
    append_run();
    if (&slot == &nodes.back()) {
      while (next < runs.size()) append_run();
    }
    done = slot.whole.data() + slot.whole.size();
  }
  body.append(done, graph.data() + graph.size());
  body += shapes_of(proto.graph(), merged.made());
  std::string made{file.data(), graphs[0].whole.data()};
  if (body.size() == graph.size()) {
    made.append(graphs[0].whole.data(), graph.data());
    made += body;
  } else {
    append_field(made, onnx::ModelProto::kGraphFieldNumber, body);
  }
  made.append(graph.data() + graph.size(), file.data() + file.size());
  return made;
}

}  // namespace berth::model
