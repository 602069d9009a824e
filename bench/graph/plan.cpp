// Measures planning, comparing and binding a graph per node, and planning by stage. The graphs are transformer-shaped
// ones made here, and traces of ggml (JSON Lines, plain or gzipped; berth/model/ggml_trace.hpp). Usage:
// bench_graph_plan [LAYERS | TRACE]...
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
#include "berth/model/ggml_trace.hpp"
#include "berth/plan/verify.hpp"
#include "berth/pool/pool.hpp"
#include "model/open_model.hpp"
#include "plan/greedy/sweep.hpp"

namespace {
using namespace berth;

tensor_type f32(std::int64_t rows, std::int64_t columns) {
  return {.shape = {rows, columns}};
}

// Makes pre-norm attention and a gated feed-forward net, with reshapes as views and element-wise nodes in place.
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

// Returns nanoseconds a call: the least and the median of 21 batches.
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

void report(const graph& g, const rules::placement& rules, const char* called) {
  const auto nodes = static_cast<double>(g.nodes().size());
  const auto print = [&](const char* what, figure f) {
    std::printf("  %-24s %8.2f ns/node (median %.2f)\n", what, f.least / nodes, f.middle / nodes);
  };
  graph_options options;
  options.rules = rules;
  const auto plan = plan_graph(g, options);
  if (!plan) {
    std::printf("%s: %s\n", called, plan.error().what);
    return;
  }
  std::printf("%s: %zu nodes, %zu values: arena %llu, bound %llu (%s), without reuse %llu bytes\n", called,
              g.nodes().size(), g.values().size(), static_cast<unsigned long long>(plan->arena()),
              static_cast<unsigned long long>(plan->lower_bound()), plan->provenance.solver.c_str(),
              static_cast<unsigned long long>(plan->no_reuse_bytes));
  const int calls = static_cast<int>(20'000 / nodes) + 1;
  print("plan", measure(calls, [&] { seen += plan_graph(g, options)->arena(); }));
  const plan::problem p = find_lifetimes(g.structure(), rules).problem;
  const plan::plan solved = *plan::solve(p);
  print("  lifetimes", measure(calls, [&] { seen += find_lifetimes(g.structure(), rules).problem.buffers.size(); }));
  print("  solve", measure(calls, [&] { seen += plan::solve(p)->arena(); }));
  print("    validate", measure(calls, [&] { seen += plan::validate(p).has_value(); }));
  print("    sweep", measure(calls, [&] { seen += plan::sweep(p).has_value(); }));
  print("    verify", measure(calls, [&] { seen += plan::verify(p, solved).has_value(); }));
  print("    verify_bound", measure(calls, [&] { seen += plan::verify_bound(p, 0, solved.proof).has_value(); }));
  const graph copy = g;
  print("fingerprint check", measure(10 * calls, [&] { seen += same_structure(copy.structure(), plan->structure); }));
  std::vector<std::byte> memory(plan->arena() + plan->alignment);
  void* start = memory.data();
  std::size_t room = memory.size();
  start = std::align(plan->alignment, plan->arena(), start, room);
  arena_options within;
  within.rules = rules;
  auto placed = arena::within(g, start, plan->arena(), within);
  for (std::uint32_t v = 0; placed && v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    const bool outside = it.kind == value_kind::constant || it.kind == value_kind::external;
    if (outside) placed->attach({v}, memory.data(), it.size).value();  // no bytes are read there
  }
  if (placed) print("bind, unchanged", measure(10 * calls, [&] { seen += placed->bind(copy).has_value(); }));
}

// The same graph with its tokens as a dimension: an arena bound to two values in turn, and its arenas beside those of
// plans for the numbers.
void report_dimensions(int layers) {
  const auto at = [&](std::int64_t tokens) { return transformer(layers, tokens, 64); };
  const graph open = model::open_by_fit("", {{"tokens", 1, 512}}, [&](const auto& v) { return at(v[0]); }).graph;
  const auto values = static_cast<double>(open.values().size());
  pool memory{device::host()};
  stream s{device::host()};
  arena bound = arena::reserve(open, memory, s).value();
  for (std::uint32_t v = 0; v < open.values().size(); ++v) {
    if (open.values()[v].kind == value_kind::constant) bound.attach({v}, &seen, open.values()[v].size).value();
  }
  const int calls = static_cast<int>(40'000 / values) + 1;
  bytes tokens = 3;
  const figure f = measure(calls, [&] { seen += bound.bind(open, {{"tokens", tokens ^= 256}}).has_value(); });
  graph_plan plan = plan_graph(open).value();
  const figure alone = measure(calls, [&] {
    const dimension_value one[] = {{"tokens", tokens ^= 256}};
    seen += set_dimensions(plan, one).has_value();
  });
  std::printf(
      "  tokens as a dimension: bind %.2f ns/value (median %.2f), offsets alone %.2f (%.2f); arena over a plan's:",
      f.least / values, f.middle / values, alone.least / values, alone.middle / values);
  for (const std::int64_t n : {1, 2, 5, 10, 30, 64, 100, 200, 400, 512}) {
    const dimension_value one[] = {{"tokens", static_cast<bytes>(n)}};
    set_dimensions(plan, one).value();
    std::printf(" %.3f", static_cast<double>(plan.arena()) / static_cast<double>(plan_graph(at(n)).value().arena()));
  }
  std::printf("\n");
}

void report(const std::string& what) {
  char* end = nullptr;
  const long layers = std::strtol(what.c_str(), &end, 10);
  if (*end == '\0') {
    const graph g = transformer(static_cast<int>(std::max(1L, layers)), 64, 64);
    report(g, rules::host(), ("transformer of " + what + " layers").c_str());
    return report_dimensions(static_cast<int>(std::max(1L, layers)));
  }
  const model::ggml_trace trace = model::read_ggml_trace(what);
  report(trace.graph, trace.rules, trace.name.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> asked(argv + 1, argv + argc);
  if (asked.empty()) asked = {"4", "32", "128", "512"};
  try {
    for (const std::string& what : asked) report(what);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_graph_plan: %s\n", e.what());
    return 2;
  }
  return seen == 0 ? 1 : 0;
}
