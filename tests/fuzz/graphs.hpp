// Graphs made of choices, with faults now and then; and whether the tests' kernels can run one.
#pragma once

#include <string>
#include <vector>

#include "berth/graph/graph.hpp"
#include "fuzz/fuzz.hpp"

namespace berth::fuzz {

inline constexpr bytes graph_sizes[] = {4, 8, 16, 64, 0, 256, 12, bytes{1} << 40, bytes{1} << 62, max_bytes};

class graph_maker {
 public:
  // The same choices make the same graph with the same states, but for other sizes: `scale` times as large.
  explicit graph_maker(choices c, bytes scale = 1) : c_{c}, scale_{scale} {}

  graph made() {
    lanes_ = c_.byte() % 4 == 0 ? 3 : 1;
    while (!c_.empty() && g_.nodes().size() < 24) step();
    for (std::size_t i = c_.byte() % 3; i > 0; --i) g_.output(any());
    return g_;
  }

 private:
  value_id any() {
    const std::size_t n = g_.values().size();
    const std::size_t v = c_.below(n + 1);
    return {static_cast<std::uint32_t>(v == n && c_.byte() % 8 != 0 && n != 0 ? n - 1 : v)};  // n: there is none
  }
  tensor_type type() { return type(scale_); }
  tensor_type type(bytes scale) {
    tensor_type t;
    const bytes size = c_.byte() % 16 == 0 ? c_.of(graph_sizes) : graph_sizes[c_.byte() % 4] * scale;
    t.shape = {static_cast<std::int64_t>(size / 4)};
    t.size = size;
    return t;
  }
  std::vector<value_id> some() {
    std::vector<value_id> list(c_.byte() % 4);
    for (auto& v : list) v = any();
    return list;
  }
  node_options options(std::size_t inputs) {
    node_options o;
    o.op = "op";
    o.stream = c_.byte() % lanes_;
    if (c_.byte() % 4 == 0) o.workspace = graph_sizes[c_.byte() % 6] * scale_;
    for (std::uint32_t k = 0; k < inputs; ++k) {
      if (c_.byte() % 2 == 0) o.in_place.push_back(k);
    }
    if (c_.byte() % 64 == 0) o.in_place.push_back(9);
    return o;
  }
  void step() {
    const std::string name = "v" + std::to_string(g_.values().size());
    switch (c_.byte() % 10) {
      case 0: g_.input(name, type()); break;
      case 1: g_.constant(name, type()); break;
      case 2: c_.byte() % 2 == 0 ? g_.state(name, type(1)) : g_.external(name, type()); break;
      case 3: g_.view(name, any(), type(), graph_sizes[c_.byte() % 5] * (c_.byte() % 3)); break;
      case 4: {
        auto inputs = some();
        const std::size_t n = inputs.size();
        g_.node_n(name, std::move(inputs), {type(), type()}, options(n));
        break;
      }
      case 5: g_.node_into(name, some(), any(), options(0)); break;
      case 6: g_.separate(any(), any()); break;
      default: {
        auto inputs = some();
        const std::size_t n = inputs.size();
        g_.node(name, std::move(inputs), type(), options(n));
      }
    }
  }

  choices c_;
  bytes scale_;
  graph g_;
  std::uint32_t lanes_ = 1;
};

// The tests' kernels read a byte of each operand, and all of it.
inline bool can_run(const graph& g) {
  bytes all = 0;
  for (const value& v : g.values()) {
    if (v.kind == value_kind::view) continue;
    if (v.size > 4096) return false;
    all += v.size;
  }
  for (const node& n : g.nodes()) {
    if (n.workspace > 4096) return false;
    for (const value_id v : n.inputs) {
      if (g[v].size == 0) return false;
    }
  }
  return all != 0;
}

}  // namespace berth::fuzz
