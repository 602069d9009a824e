// Irregular networks, made by seeds: what tests and figures of the schedule are about.
//
//   randwire   Xie, Kirillov, Girshick, He, "Exploring Randomly Wired Neural Networks for Image Recognition" (2019): a
//              random graph (Watts-Strogatz with k = 4 and p = 0.75, Erdos-Renyi with p = 0.2, Barabasi-Albert with m =
//              5) becomes a cell: edges from the lower to the higher number, sums of what comes in, a convolution each;
//              nodes without predecessors read the cell's input, those without successors are averaged.
//   darts      Liu, Simonyan, Yang, "DARTS: Differentiable Architecture Search" (2019): a cell of two inputs and four
//              steps, each the sum of two operations on earlier values, and the concatenation of the steps. Seed 0 is
//              the published normal cell (DARTS_V2), others are drawn from the same space.
//   searched   In the manner of the cells that architecture search leaves (SwiftNet, Cheng et al. 2019, is the one that
//              memory schedulers report): convolutions of any width on any earlier values, concatenations, sums. The
//              published cells themselves are in no source at hand and are not reproduced.
//
// Activations are bytes (int8), batch 1. The given order is that of the construction, by number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "berth/graph/graph.hpp"

namespace berth::irregular {

// A tensor of `channels` on a square of `side`.
inline tensor_type map_of(std::int64_t side, std::int64_t channels) {
  return {.shape = {side, side, channels}, .type = element::u8};
}

// The same numbers everywhere, which the standard's distributions are not.
class dice {
 public:
  explicit dice(std::uint32_t seed) : random_{seed} {}
  std::uint32_t below(std::uint32_t n) { return random_() % n; }
  bool with(double p) { return random_() < p * 4294967296.0; }

 private:
  std::mt19937 random_;
};

enum class wiring : std::uint8_t { watts_strogatz, erdos_renyi, barabasi_albert };

// Edges of the random graph as predecessors by node, from the lower to the higher number.
inline std::vector<std::vector<std::uint32_t>> random_wiring(wiring by, std::uint32_t nodes, dice& d) {
  std::vector<std::vector<bool>> joined(nodes, std::vector<bool>(nodes, false));
  const auto join = [&](std::uint32_t a, std::uint32_t b) { joined[std::max(a, b)][std::min(a, b)] = a != b; };
  if (by == wiring::watts_strogatz) {
    for (std::uint32_t k = 1; k <= 2; ++k) {
      for (std::uint32_t v = 0; v < nodes; ++v) {
        std::uint32_t other = (v + k) % nodes;
        while (d.with(0.75)) {
          other = d.below(nodes);
          if (other != v && !joined[std::max(v, other)][std::min(v, other)]) break;
        }
        join(v, other);
      }
    }
  } else if (by == wiring::erdos_renyi) {
    for (std::uint32_t a = 0; a < nodes; ++a) {
      for (std::uint32_t b = a + 1; b < nodes; ++b) {
        if (d.with(0.2)) join(a, b);
      }
    }
  } else {
    std::vector<std::uint32_t> ends;  // every node as often as it has edges
    for (std::uint32_t v = 5; v < nodes; ++v) {
      for (std::uint32_t m = 0; m < 5; ++m) {
        const std::uint32_t other = v == 5 ? m : ends[d.below(static_cast<std::uint32_t>(ends.size()))];
        if (other == v || joined[v][other]) continue;
        join(v, other);
        ends.push_back(other);
        ends.push_back(v);
      }
    }
  }
  std::vector<std::vector<std::uint32_t>> before(nodes);
  for (std::uint32_t v = 0; v < nodes; ++v) {
    for (std::uint32_t u = 0; u < v; ++u) {
      if (joined[v][u]) before[v].push_back(u);
    }
  }
  return before;
}

// Appends a cell of `nodes` convolutions behind x; each that has several inputs sums them first.
inline value_id add_randwire(graph& g, value_id x, wiring by, std::uint32_t nodes, std::int64_t side,
                             std::int64_t channels, dice& d, const std::string& name) {
  const auto before = random_wiring(by, nodes, d);
  std::vector<bool> read(nodes, false);
  std::vector<value_id> made;
  for (std::uint32_t v = 0; v < nodes; ++v) {
    std::vector<value_id> in;
    for (const std::uint32_t u : before[v]) {
      in.push_back(made[u]);
      read[u] = true;
    }
    if (in.empty()) in.push_back(x);
    value_id sum = in[0];
    const std::string at = name + std::to_string(v);
    if (in.size() > 1) sum = g.node(at + ".sum", in, map_of(side, channels), {.op = "Sum"});
    made.push_back(g.node(at + ".conv", {sum}, map_of(side, channels), {.op = "Conv"}));
  }
  std::vector<value_id> ends;
  for (std::uint32_t v = 0; v < nodes; ++v) {
    if (!read[v]) ends.push_back(made[v]);
  }
  return g.node(name + "out", ends, map_of(side, channels), {.op = "Mean"});
}

inline graph randwire(wiring by, std::uint32_t nodes, std::uint32_t seed) {
  dice d{seed};
  graph g;
  const auto x = g.input("x", map_of(28, 64));
  g.output(add_randwire(g, x, by, nodes, 28, 64, d, "cell."));
  return g;
}

// One operation of a DARTS edge; separable convolutions are two of depth and point each.
inline value_id add_darts_edge(graph& g, value_id x, const std::string& op, std::int64_t side, std::int64_t channels,
                               const std::string& name) {
  const auto conv = [&](const char* part) { x = g.node(name + part, {x}, map_of(side, channels), {.op = "Conv"}); };
  if (op == "sep") {
    for (const char* part : {".dw1", ".pw1", ".dw2", ".pw2"}) conv(part);
  } else if (op == "dil") {
    for (const char* part : {".dw", ".pw"}) conv(part);
  } else if (op == "pool") {
    x = g.node(name + ".pool", {x}, map_of(side, channels), {.op = "MaxPool"});
  }
  return x;
}

inline graph darts(std::uint32_t seed) {
  const std::int64_t side = 28, channels = 48;
  struct edge {
    const char* op;
    std::uint32_t from;
  };
  std::vector<edge> edges{{"sep", 0}, {"sep", 1},  {"sep", 0},  {"sep", 1},
                          {"sep", 1}, {"skip", 0}, {"skip", 0}, {"dil", 2}};
  if (seed != 0) {
    dice d{seed};
    for (std::uint32_t i = 0; i < 8; ++i) {
      const char* const ops[] = {"sep", "sep", "dil", "skip", "pool"};
      edges[i] = {ops[d.below(5)], d.below(2 + i / 2)};
      if (i % 2 == 1 && edges[i].from == edges[i - 1].from) edges[i].from = (edges[i].from + 1) % (2 + i / 2);
    }
  }
  graph g;
  const auto x0 = g.input("x0", map_of(side, 4 * channels));
  const auto x1 = g.input("x1", map_of(side, 4 * channels));
  std::vector<value_id> steps{g.node("pre0", {x0}, map_of(side, channels), {.op = "Conv"}),
                              g.node("pre1", {x1}, map_of(side, channels), {.op = "Conv"})};
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::string at = "step" + std::to_string(i);
    std::vector<value_id> in;
    for (std::uint32_t k = 0; k < 2; ++k) {
      const edge& e = edges[2 * i + k];
      in.push_back(add_darts_edge(g, steps[e.from], e.op, side, channels, at + (k == 0 ? ".a" : ".b")));
    }
    steps.push_back(g.node(at, in, map_of(side, channels), {.op = "Add", .in_place = {0, 1}}));
  }
  g.output(g.node("concat", {steps[2], steps[3], steps[4], steps[5]}, map_of(side, 4 * channels), {.op = "Concat"}));
  return g;
}

// Appends a searched cell of `nodes` nodes behind x.
inline value_id add_searched(graph& g, value_id x, std::uint32_t nodes, std::int64_t side, dice& d,
                             const std::string& name) {
  std::vector<value_id> made{x};
  std::vector<bool> read{false};
  const auto any = [&] {
    const auto count = static_cast<std::uint32_t>(made.size());
    const std::uint32_t back = d.below(d.with(0.5) ? std::min(count, 6u) : count);
    read[count - 1 - back] = true;
    return made[count - 1 - back];
  };
  const auto channels = [&](value_id v) { return g[v].type.shape[2]; };
  for (std::uint32_t v = 0; v + 1 < nodes; ++v) {
    const std::string at = name + std::to_string(v);
    const std::uint32_t kind = d.below(8);
    if (kind < 5) {
      const std::int64_t widths[] = {16, 24, 32, 48, 64, 96};
      const bytes workspace = d.with(0.25) ? static_cast<bytes>(side) * 64 : 0;
      made.push_back(
          g.node(at + ".conv", {any()}, map_of(side, widths[d.below(6)]), {.op = "Conv", .workspace = workspace}));
    } else if (kind == 5) {
      const value_id of = any();
      made.push_back(g.node(at + ".relu", {of}, map_of(side, channels(of)), {.op = "Relu", .in_place = {0}}));
    } else {
      std::vector<value_id> in{any(), any()};
      if (d.with(0.3)) in.push_back(any());
      std::int64_t sum = 0;
      for (const value_id i : in) sum += channels(i);
      made.push_back(g.node(at + ".concat", in, map_of(side, std::min<std::int64_t>(sum, 256)), {.op = "Concat"}));
    }
    read.push_back(false);
  }
  std::vector<value_id> ends;
  for (std::size_t v = 0; v < made.size(); ++v) {
    if (!read[v]) ends.push_back(made[v]);
  }
  return g.node(name + "out", ends, map_of(side, 64), {.op = "Conv"});
}

inline graph searched(std::uint32_t nodes, std::uint32_t seed) {
  dice d{seed};
  graph g;
  g.output(add_searched(g, g.input("x", map_of(28, 64)), nodes, 28, d, "cell."));
  return g;
}

// A network of cells of about `nodes` nodes, one behind the other; sides shrink as in image networks.
inline graph stacked(bool wired, std::uint32_t nodes, std::uint32_t seed) {
  dice d{seed};
  graph g;
  value_id x = g.input("x", map_of(56, 64));
  for (std::uint32_t cell = 0; g.nodes().size() < nodes; ++cell) {
    const std::int64_t side = std::max<std::int64_t>(7, 56 >> std::min<std::size_t>(3, 4 * g.nodes().size() / nodes));
    const std::string name = "cell" + std::to_string(cell) + ".";
    x = wired ? add_randwire(g, x, wiring::watts_strogatz, 32, side, 64, d, name)
              : add_searched(g, x, 50, side, d, name);
  }
  g.output(x);
  return g;
}

}  // namespace berth::irregular
