#include "berth/graph/fingerprint.hpp"

#include <algorithm>
#include <cstring>

namespace berth {
namespace {

template <class T>
bool equal(const std::vector<T>& a, const std::vector<T>& b) noexcept {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

difference compare(const value_record& planned, const value_record& now, std::uint32_t i) noexcept {
  if (planned.kind != now.kind) return {change::value_kind, {i}, {}};
  if (planned.root != now.root) return {change::view_root, {i}, {}};
  if (planned.size != now.size) return {change::value_size, {i}, {}};
  if (planned.output != now.output) return {change::output_flag, {i}, {}};
  return {};
}

difference compare(const graph_structure& a, const graph_structure& b, std::uint32_t i) noexcept {
  const node_record& planned = a.nodes[i];
  const node_record& now = b.nodes[i];
  if (planned.op != now.op) return {change::node_op, {}, {i}};
  if (planned.workspace != now.workspace) return {change::workspace, {}, {i}};
  if (planned.stream != now.stream) return {change::lane, {}, {i}};
  const auto same_edges = [](auto x, auto y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); };
  if (!same_edges(a.inputs(planned), b.inputs(now)) || !same_edges(a.outputs(planned), b.outputs(now)) ||
      !same_edges(a.in_place(planned), b.in_place(now))) {
    return {change::operands, {}, {i}};
  }
  return {};
}

const char* role(value_kind k) noexcept {
  switch (k) {
    case value_kind::input: return "an input of the arena";
    case value_kind::result: return "planned";
    default: return name(k);
  }
}

// Xors each word into the state and multiplies that by an odd number (2^64 over the golden ratio). Then it adds the
// high bits of the state before, since a product carries nothing downwards. No adversary chooses the structure.
class digester {
 public:
  void add(std::uint64_t word) noexcept { state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u + (state_ >> 29); }
  [[nodiscard]] std::uint64_t value() const noexcept { return state_ ^ (state_ >> 32); }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325u;
};

}  // namespace

const char* name(change c) noexcept {
  switch (c) {
    case change::none: return "none";
    case change::value_kind: return "value_kind";
    case change::value_size: return "value_size";
    case change::view_root: return "view_root";
    case change::view_offset: return "view_offset";
    case change::written_view: return "written_view";
    case change::output_flag: return "output_flag";
    case change::operands: return "operands";
    case change::node_op: return "node_op";
    case change::workspace: return "workspace";
    case change::lane: return "lane";
    case change::separations: return "separations";
    case change::value_count: return "value_count";
    case change::node_count: return "node_count";
  }
  return "unknown";
}

bool same_structure(const graph_structure& a, const graph_structure& b) noexcept {
  return equal(a.values, b.values) && equal(a.nodes, b.nodes) && equal(a.edges, b.edges) && equal(a.views, b.views) &&
         equal(a.separations, b.separations);
}

difference first_difference(const graph_structure& planned, const graph_structure& now) noexcept {
  if (same_structure(planned, now)) return {};
  for (std::uint32_t i = 0; i < std::min(planned.values.size(), now.values.size()); ++i) {
    if (const difference d = compare(planned.values[i], now.values[i], i); d.what != change::none) return d;
  }
  for (std::size_t i = 0; i < std::min(planned.views.size(), now.views.size()); ++i) {
    const view_record& a = planned.views[i];
    const view_record& b = now.views[i];
    if (a.value != b.value) break;
    if (a.offset != b.offset) return {change::view_offset, {b.value}, {}};
    if (a.writer != b.writer || a.before != b.before) return {change::written_view, {b.value}, {}};
  }
  for (std::uint32_t i = 0; i < std::min(planned.nodes.size(), now.nodes.size()); ++i) {
    if (const difference d = compare(planned, now, i); d.what != change::none) return d;
  }
  const auto end = [](std::size_t a, std::size_t b) { return static_cast<std::uint32_t>(std::min(a, b)); };
  if (planned.values.size() != now.values.size()) {
    return {change::value_count, {end(planned.values.size(), now.values.size())}, {}};
  }
  if (planned.nodes.size() != now.nodes.size()) {
    return {change::node_count, {}, {end(planned.nodes.size(), now.nodes.size())}};
  }
  return {change::separations, {}, {}};
}

std::string describe(const difference& d, const graph_structure& planned, const graph& now) {
  const auto value_name = [&](value_id v) {
    return v.index < now.values().size() ? "value '" + now[v].name + "'" : "value #" + std::to_string(v.index);
  };
  const auto node_name = [&](node_id n) {
    return n.index < now.nodes().size() ? "node '" + now[n].name + "'" : "node #" + std::to_string(n.index);
  };
  const auto was_is = [](auto was, auto is) { return " was " + std::to_string(was) + ", is " + std::to_string(is); };
  const graph_structure& s = now.structure();
  const auto offset_in = [](const graph_structure& g, value_id v) {
    for (const view_record& r : g.views) {
      if (r.value == v.index) return r.offset;
    }
    return bytes{0};
  };
  switch (d.what) {
    case change::none: return "nothing has changed";
    case change::value_kind:
      return value_name(d.value) + " was " + role(planned.values[d.value.index].kind) + ", is " +
             role(s.values[d.value.index].kind) + " now";
    case change::value_size:
      return value_name(d.value) + was_is(planned.values[d.value.index].size, s.values[d.value.index].size) +
             " bytes now";
    case change::view_root:
      return value_name(d.value) + " is now a view of '" + now[now[d.value].root].name + "', was one of value #" +
             std::to_string(planned.values[d.value.index].root);
    case change::view_offset:
      return value_name(d.value) + " was at offset " + std::to_string(offset_in(planned, d.value)) +
             " of its root, is at " + std::to_string(offset_in(s, d.value)) + " now";
    case change::written_view: return value_name(d.value) + " is a view that another node writes through now";
    case change::output_flag:
      return value_name(d.value) +
             (s.values[d.value.index].output != 0 ? " is an output now, was none" : " was an output, is none now");
    case change::operands: return node_name(d.node) + " has other operands or may take over others in place now";
    case change::node_op:
      return node_name(d.node) + " has another operator now" +
             (d.node.index < now.nodes().size() ? " ('" + now[d.node].op + "')" : "");
    case change::workspace:
      return node_name(d.node) + " wanted " + std::to_string(planned.nodes[d.node.index].workspace) +
             " bytes of workspace, wants " + std::to_string(s.nodes[d.node.index].workspace) + " now";
    case change::lane:
      return node_name(d.node) + " ran on stream " + std::to_string(planned.nodes[d.node.index].stream) +
             ", runs on stream " + std::to_string(s.nodes[d.node.index].stream) + " now";
    case change::separations: return "other values are to be kept apart now";
    case change::value_count:
      return "the graph had " + std::to_string(planned.values.size()) + " values, has " +
             std::to_string(s.values.size()) + " now; the first that differs is " + value_name(d.value);
    case change::node_count:
      return "the graph had " + std::to_string(planned.nodes.size()) + " nodes, has " + std::to_string(s.nodes.size()) +
             " now; the first that differs is " + node_name(d.node);
  }
  return "unknown";
}

bool fits_within(const graph_structure& planned, const graph_structure& now) noexcept {
  if (planned.values.size() != now.values.size() || planned.nodes.size() != now.nodes.size() ||
      planned.views.size() != now.views.size() || !equal(planned.edges, now.edges) ||
      !equal(planned.separations, now.separations)) {
    return false;
  }
  for (std::size_t i = 0; i < now.values.size(); ++i) {
    const value_record& a = planned.values[i];
    const value_record& b = now.values[i];
    // A state keeps its bytes, so its size must not change.
    if (a.kind != b.kind || a.root != b.root || a.output != b.output || b.size > a.size) return false;
    if (a.kind == value_kind::state && a.size != b.size) return false;
  }
  for (std::size_t i = 0; i < now.views.size(); ++i) {
    const view_record& a = planned.views[i];
    const view_record& b = now.views[i];
    if (a.value != b.value || a.writer != b.writer || a.before != b.before) return false;
  }
  for (std::size_t i = 0; i < now.nodes.size(); ++i) {
    const node_record& a = planned.nodes[i];
    const node_record& b = now.nodes[i];
    // A plan has no place for a workspace that had no bytes.
    if (a.stream != b.stream || a.first_edge != b.first_edge || a.inputs != b.inputs || a.outputs != b.outputs ||
        a.in_place != b.in_place || b.workspace > a.workspace) {
      return false;
    }
  }
  return true;
}

std::uint64_t digest(const graph_structure& g) noexcept {
  digester d;
  for (const value_record& v : g.values) {
    d.add(v.size);
    d.add((std::uint64_t{v.root} << 16) | (static_cast<std::uint64_t>(v.kind) << 8) | v.output);
  }
  d.add(g.nodes.size());
  for (const node_record& n : g.nodes) {
    d.add(n.workspace);
    d.add((std::uint64_t{n.op} << 32) | n.stream);
    d.add((std::uint64_t{n.inputs} << 32) | n.outputs);
    d.add(n.in_place);
  }
  for (const auto e : g.edges) d.add(e);
  d.add(g.views.size());
  for (const view_record& v : g.views) {
    d.add(v.offset);
    d.add((std::uint64_t{v.value} << 32) | v.writer);
    d.add(v.before);
  }
  for (const auto s : g.separations) d.add(s);
  return d.value();
}

}  // namespace berth
