// What planning, comparing and binding a graph cost per node, on transformer-shaped graphs of this file's own making.
// usage: bench_graph_plan [LAYERS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "berth/graph/arena.hpp"
#include "berth/graph/fingerprint.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/graph_plan.hpp"

namespace {
using namespace berth;

tensor_type f32(std::int64_t rows, std::int64_t columns) {
  return {.shape = {rows, columns}};
}

// Pre-norm attention and a gated feed-forward net, with reshapes as views and element-wise nodes in place.
graph transformer(int layers, std::int64_t tokens, std::int64_t width) {
  graph g;
  const node_options product{.op = "mul_mat"};
  const node_options on_first{.op = "unary", .in_place = {0}};
  const node_options on_either{.op = "add", .in_place = {0, 1}};
  value_id x = g.input("tokens", f32(tokens, width));
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + ".";
    const value_id w = g.constant(layer + "w", f32(width, width));
    const value_id wide = g.constant(layer + "w_wide", f32(width, 4 * width));
    const value_id normed = g.node(layer + "norm", {x}, f32(tokens, width), {.op = "norm", .in_place = {0}});
    const value_id scaled = g.node(layer + "scale", {normed, w}, f32(tokens, width), on_first);
    value_id parts[3];
    for (int k = 0; k < 3; ++k) {
      const value_id p = g.node(layer + "qkv", {scaled, w}, f32(tokens, width), product);
      parts[k] = g.node(layer + "rope", {g.view(p, f32(tokens, width))}, f32(tokens, width), on_first);
    }
    const value_id scores = g.node(layer + "scores", {parts[0], parts[1]}, f32(tokens, tokens), product);
    const value_id weights = g.node(layer + "softmax", {scores}, f32(tokens, tokens), on_first);
    const value_id mixed = g.node(layer + "mix", {weights, parts[2]}, f32(tokens, width), product);
    const value_id out = g.node(layer + "out", {g.view(mixed, f32(tokens, width)), w}, f32(tokens, width), product);
    const value_id attended = g.node(layer + "attended", {out, x}, f32(tokens, width), on_either);
    const value_id inner = g.node(layer + "inner_norm", {attended}, f32(tokens, width), {.op = "norm"});
    const value_id gate = g.node(layer + "gate", {inner, wide}, f32(tokens, 4 * width), product);
    const value_id up = g.node(layer + "up", {inner, wide}, f32(tokens, 4 * width), product);
    const value_id active = g.node(layer + "silu", {gate}, f32(tokens, 4 * width), on_first);
    const value_id gated = g.node(layer + "gated", {active, up}, f32(tokens, 4 * width), on_either);
    const value_id down = g.node(layer + "down", {gated, wide}, f32(tokens, width), product);
    x = g.node(layer + "x", {down, attended}, f32(tokens, width), on_either);
  }
  g.output(x);
  return g;
}

struct figure {
  double least = 0;
  double middle = 0;
};

// Nanoseconds a call: the least and the median of 21 batches.
template <class Call>
figure measure(int calls, Call call) {
  std::vector<double> batches;
  for (int b = 0; b < 21; ++b) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    batches.push_back(taken.count() / calls);
  }
  std::sort(batches.begin(), batches.end());
  return {batches.front(), batches[batches.size() / 2]};
}

std::uint64_t seen = 0;  // keeps the calls alive

void report(const graph& g) {
  const auto nodes = static_cast<double>(g.nodes().size());
  const auto print = [&](const char* what, figure f) {
    std::printf("  %-24s %8.2f ns/node (median %.2f)\n", what, f.least / nodes, f.middle / nodes);
  };
  const auto plan = plan_graph(g);
  if (!plan) return;
  std::printf("%zu nodes, %zu values: arena %llu, bound %llu, without reuse %llu bytes\n", g.nodes().size(),
              g.values().size(), static_cast<unsigned long long>(plan->arena()),
              static_cast<unsigned long long>(plan->lower_bound()),
              static_cast<unsigned long long>(plan->no_reuse_bytes));
  print("plan", measure(5, [&] { seen += plan_graph(g)->arena(); }));
  print("lifetimes alone",
        measure(5, [&] { seen += find_lifetimes(g.structure(), rules::host()).problem.buffers.size(); }));
  const graph copy = g;
  print("fingerprint check", measure(200, [&] { seen += same_structure(copy.structure(), plan->structure); }));
  std::vector<std::byte> memory(plan->arena() + 64);
  void* start = memory.data();
  std::size_t room = memory.size();
  start = std::align(64, plan->arena(), start, room);
  auto placed = arena::within(g, start, plan->arena());
  if (placed) print("bind, unchanged", measure(200, [&] { seen += placed->bind(copy).has_value(); }));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    report(transformer(std::max(1, std::atoi(argv[1])), 64, 64));
  } else {
    for (const int layers : {4, 32, 128, 512}) report(transformer(layers, 64, 64));
  }
  return seen == 0 ? 1 : 0;
}
