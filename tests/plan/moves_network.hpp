// A network for problems with moves: a chain of layers with skips. About every second layer reads weights that lie in
// the slow memory from the start.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "berth/plan/bound.hpp"
#include "berth/plan/solve.hpp"

namespace berth::plan::moves_network {

struct shape {
  unsigned layers = 0;
  double share = 0;    // the fast memory's part of what all results need at once
  double compute = 0;  // time units a byte that a step touches
  unsigned seed = 0;
  std::optional<bytes> slow_capacity{};
};

// Steps are numbered with gaps.
inline problem make(const shape& of) {
  std::mt19937 random(of.seed);
  const auto upto = [&](unsigned most) { return static_cast<unsigned>(random() % (most + 1)); };
  problem p;
  p.alignment = 64;
  p.memories = {{.name = "fast"}, {.name = "slow", .capacity = of.slow_capacity, .cost = 1}};
  p.links = {{.from = 0, .to = 1, .bandwidth = 1, .latency = 500},
             {.from = 1, .to = 0, .bandwidth = 1, .latency = 500}};
  const tick end = 3 * static_cast<tick>(of.layers) + 1;
  std::vector<index> results;
  std::vector<double> touched(of.layers, 0);
  const auto touch = [&](index i, unsigned layer, bool write) {
    const auto size = static_cast<double>(p.buffers[i].size);
    p.buffers[i].uses.push_back({.at = 3 * static_cast<tick>(layer), .touched = size, .write = write});
    touched[layer] += size;
  };
  for (unsigned layer = 0; layer < of.layers; ++layer) {
    const tick at = 3 * static_cast<tick>(layer);
    if (layer > 0) {
      touch(results.back(), layer, false);
      if (layer > 8 && upto(3) == 0) touch(results[layer - 3 - upto(5)], layer, false);
    }
    results.push_back(p.add({.size = 256 * (4 + upto(60)), .live = {at, at + 1}}));
    touch(results.back(), layer, true);
    if (upto(1) == 0) continue;
    const index weights = p.add({.size = 256 * (4 + upto(120)), .live = {-1, end}});
    p.buffers[weights].uses = {{.at = -1, .write = true, .memory = 1}};
    touch(weights, layer, false);
  }
  for (index i = 0; i < p.buffers.size(); ++i) {
    p.buffers[i].live.upper = std::max(p.buffers[i].live.upper, p.buffers[i].uses.back().at + 1);
  }
  for (unsigned layer = 0; layer < of.layers; ++layer) {
    p.steps.push_back({3 * static_cast<tick>(layer), of.compute * touched[layer]});
  }
  problem results_only = p;
  results_only.memories.clear();
  for (buffer& b : results_only.buffers) {
    if (b.live.lower < 0) b.size = 0;
  }
  p.memories[0].capacity = static_cast<bytes>(of.share * static_cast<double>(max_live(results_only)));
  return p;
}

}  // namespace berth::plan::moves_network
