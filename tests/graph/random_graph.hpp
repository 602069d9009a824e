// Random graphs, and their execution on plain bytes: the oracle of the graph's property tests.
//
// A node's kernel mixes all bytes of its operands into every byte of its results, element by element if declared
// in-place. Any byte read from the wrong place so changes the last results.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/graph/graph_plan.hpp"

namespace berth::test {

struct random_shape {
  int nodes = 20;
  int lanes = 1;
  bool states = true;
  bool writes_into = true;
};

// Sizes are multiples of 4 up to 256 bytes; every graph has an output.
inline graph random_graph(std::uint32_t seed, const random_shape& shape = {}) {
  std::mt19937 random{seed};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto type = [&](bytes size) {
    return tensor_type{.shape = {static_cast<std::int64_t>(size)}, .type = element::u8};
  };
  const auto size = [&] { return static_cast<bytes>(4 * (1 + below(64))); };
  graph g;
  std::vector<value_id> readable;
  for (std::size_t i = 0; i < 1 + below(3); ++i) readable.push_back(g.input("input" + std::to_string(i), type(size())));
  readable.push_back(g.constant("weights", type(size())));
  readable.push_back(g.external("cache", type(size())));
  if (shape.states && below(2) == 0) readable.push_back(g.state("state", type(size())));
  for (int n = 0; n < shape.nodes; ++n) {
    const std::string name = "node" + std::to_string(n);
    std::vector<value_id> inputs;
    for (std::size_t i = 0; i < 1 + below(3); ++i) {
      // Mostly recent values, so that lifetimes are short.
      const std::size_t back = below(below(4) == 0 ? readable.size() : std::min<std::size_t>(readable.size(), 5));
      inputs.push_back(readable[readable.size() - 1 - back]);
    }
    node_options options;
    options.stream = static_cast<std::uint32_t>(below(static_cast<std::size_t>(shape.lanes)));
    if (below(3) == 0) options.workspace = size();
    const std::size_t kind = below(8);
    if (kind == 0 && shape.writes_into && shape.lanes == 1) {
      const value_id into = inputs[0];
      if (g[g[into].root].kind != value_kind::constant) {
        readable.push_back(g.node_into(name, inputs, into, options));
        continue;
      }
    }
    if (kind < 5) {
      for (std::uint32_t k = 0; k < inputs.size(); ++k) {
        if (below(2) == 0) options.in_place.push_back(k);
      }
      const value_id made = g.node(name, inputs, type(g[inputs[0]].size), options);
      readable.push_back(made);
    } else if (kind == 5) {
      const auto made = g.node_n(name, inputs, {type(size()), type(size())}, options);
      readable.insert(readable.end(), made.begin(), made.end());
    } else {
      readable.push_back(g.node(name, inputs, type(size()), options));
    }
    if (below(3) == 0) {
      const value_id of = readable.back();
      const bytes whole = g[of].size;
      const bytes part = below(2) == 0 ? whole : 4 * (1 + below(whole / 4));
      readable.push_back(g.view("view" + std::to_string(n), of, type(part), 4 * below((whole - part) / 4 + 1)));
    }
    if (below(8) == 0) g.output(readable.back());
  }
  g.output(readable.back());
  return g;
}

// The places of a value's bytes and of a node's workspace; null without one.
struct placement_of {
  std::function<std::byte*(value_id)> value;
  std::function<std::byte*(node_id)> workspace;
};

// Returns what the node made of the operands that it reads whole. `kernel` tells nodes apart, from 1.
inline std::uint32_t run_node(const graph& g, node_id id, const placement_of& where, std::uint32_t kernel) {
  const node& n = g[id];
  const auto byte_at = [&](value_id v, bytes i) { return std::to_integer<std::uint32_t>(where.value(v)[i]); };
  const auto in_place = [&](std::size_t k) {
    for (const std::uint32_t other : n.in_place) {
      if (other == k) return true;
    }
    return false;
  };
  // Operands not read element by element are read whole before anything is written.
  std::uint32_t mixed = kernel;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    if (in_place(k)) continue;
    for (bytes i = 0; i < g[n.inputs[k]].size; ++i) mixed = mixed * 31 + byte_at(n.inputs[k], i);
  }
  if (n.workspace != 0) std::memset(where.workspace(id), static_cast<int>(mixed & 255), n.workspace);
  for (std::size_t o = n.outputs.size(); o-- > 0;) {  // the first result last: it may lie on an operand
    const value_id v = n.outputs[o];
    for (bytes i = 0; i < g[v].size; ++i) {
      std::uint32_t here = mixed + static_cast<std::uint32_t>(o * 7 + i);
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        if (in_place(k) && o == 0) here = here * 33 + byte_at(n.inputs[k], i % g[n.inputs[k]].size);
      }
      where.value(v)[i] = static_cast<std::byte>(here);
    }
  }
  if (n.workspace != 0) std::memset(where.workspace(id), 0xEE, n.workspace);
  return mixed;
}
inline std::uint32_t run_node(const graph& g, node_id id, const placement_of& where) {
  return run_node(g, id, where, id.index + 1);
}

inline void fill_from_outside(const graph& g, const placement_of& where) {
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    if (it.kind == value_kind::result || it.kind == value_kind::view) continue;
    for (bytes i = 0; i < it.size; ++i) where.value({v})[i] = static_cast<std::byte>(v * 37 + i * 11);
  }
}

// The bytes of outputs and states, in the order of their values.
inline std::vector<std::byte> surviving(const graph& g, const placement_of& where) {
  std::vector<std::byte> all;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    if (it.kind == value_kind::view || !(it.output || it.kind == value_kind::state)) continue;
    all.insert(all.end(), where.value({v}), where.value({v}) + it.size);
  }
  return all;
}

// Runs the nodes in this order. Returns all bytes that must survive the last node (outputs and states), behind what
// nodes without results saw.
inline std::vector<std::byte> run_nodes(const graph& g, const placement_of& where,
                                        const std::vector<std::uint32_t>& schedule) {
  std::vector<std::byte> all;
  for (const std::uint32_t n : schedule) {
    const std::uint32_t seen = run_node(g, {n}, where);
    for (int i = 0; g.nodes()[n].outputs.empty() && i < 32; i += 8) all.push_back(static_cast<std::byte>(seen >> i));
  }
  const std::vector<std::byte> kept = surviving(g, where);
  all.insert(all.end(), kept.begin(), kept.end());
  return all;
}

// Bytes outside the arena: constants and externals, and, without a plan, everything.
class outside_memory {
 public:
  outside_memory(const graph& g, bool everything) : g_{&g} {
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const berth::value& it = g.values()[v];
      if (it.kind == value_kind::view) continue;
      if (everything || !graph_structure::in_arena(it.kind)) bytes_[v].resize(it.size);
    }
    for (std::uint32_t n = 0; everything && n < g.nodes().size(); ++n) workspaces_[n].resize(g.nodes()[n].workspace);
  }
  std::byte* value(value_id v) { return bytes_.at((*g_)[v].root.index).data() + (*g_)[v].root_offset; }
  std::byte* workspace(node_id n) { return workspaces_.at(n.index).data(); }
  [[nodiscard]] bool has(value_id v) const { return bytes_.contains((*g_)[v].root.index); }

 private:
  const graph* g_;
  std::map<std::uint32_t, std::vector<std::byte>> bytes_, workspaces_;
};

inline std::vector<std::byte> run_without_reuse(const graph& g) {
  outside_memory memory{g, true};
  const placement_of where{[&](value_id v) { return memory.value(v); }, [&](node_id n) { return memory.workspace(n); }};
  fill_from_outside(g, where);
  std::vector<std::uint32_t> in_order(g.nodes().size());
  std::iota(in_order.begin(), in_order.end(), 0u);
  return run_nodes(g, where, in_order);
}

// In the order of `schedule`, which must respect happens-before.
inline std::vector<std::byte> run_with_plan(const graph& g, const graph_plan& p,
                                            const std::vector<std::uint32_t>& schedule) {
  outside_memory memory{g, false};
  std::vector<std::byte> arena(p.arena());
  const placement_of where{
      [&](value_id v) { return memory.has(v) ? memory.value(v) : arena.data() + p.offset_of[v.index]; },
      [&](node_id n) { return arena.data() + p.workspace_of[n.index]; }};
  fill_from_outside(g, where);
  return run_nodes(g, where, schedule);
}

// Any order that a runtime with one queue a lane could take.
inline std::vector<std::uint32_t> random_schedule(const graph& g, std::uint32_t seed) {
  std::mt19937 random{seed};
  const std::size_t count = g.nodes().size();
  std::vector<bool> done(count, false);
  const auto ready = [&](std::uint32_t n) {
    for (std::uint32_t before = 0; before < n; ++before) {
      if (!done[before] && g.nodes()[before].stream == g.nodes()[n].stream) return false;
    }
    for (const value_id v : g.nodes()[n].inputs) {
      const node_id producer = g[g[v].root].producer;
      if (producer.index < count && !done[producer.index]) return false;
    }
    return true;
  };
  std::vector<std::uint32_t> order;
  while (order.size() < count) {
    std::vector<std::uint32_t> choices;
    for (std::uint32_t n = 0; n < count; ++n) {
      if (!done[n] && ready(n)) choices.push_back(n);
    }
    const std::uint32_t next = choices[random() % choices.size()];
    done[next] = true;
    order.push_back(next);
  }
  return order;
}

}  // namespace berth::test
