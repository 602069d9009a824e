// Measures the cost of one order for all values. Random networks whose sizes grow with two dimensions are planned once
// by one order. Two others are compared at several values: offsets fixed at the largest values, and a separate
// plan for each. Prints arenas over the bound of each value: means, and the worst. Usage: symbolic [NETWORKS]
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "berth/plan/evaluate.hpp"
#include "berth/plan/solve.hpp"

namespace {

using berth::bytes;
using namespace berth::plan;

// Makes layers with an occasional skip. The outputs of a layer grow with the batch, with batch * sequence, or with the
// square of the sequence (attention). Some have a fixed size (states, tables). Workspaces are alive at one layer only.
problem random_network(std::mt19937_64& random, std::size_t buffers) {
  problem n;
  n.alignment = 64;
  n.dimensions = {{"batch", 1, 16}, {"seq", 16, 1024}};
  const auto upto = [&](std::uint64_t most) { return random() % (most + 1); };
  const auto layers = static_cast<tick>(buffers / 2);
  for (std::size_t k = 0; k < buffers; ++k) {
    const auto born = static_cast<tick>(upto(static_cast<std::uint64_t>(layers) - 1));
    const tick alive = k % 3 == 0 ? 1 : upto(5) == 0 ? 2 + static_cast<tick>(upto(20)) : 2;
    auto& size = n.buffers[n.add({.live = {born, born + alive}})].terms;
    const bytes width = bytes{64} << upto(4);
    switch (upto(5)) {
      case 0: size = {{width * 1024 * (1 + upto(15)), {}}}; break;
      case 1: size = {{width * 256, {0}}}; break;
      case 2: size = {{width / 16, {0, 1, 1}}}; break;
      default: size = {{width * 4, {0, 1}}, {1024, {}}}; break;
    }
  }
  return n;
}

struct ratio {
  double sum = 0, worst = 0;
  void add(bytes arena, bytes bound) {
    const double r = static_cast<double>(arena) / static_cast<double>(bound);
    sum += r;
    worst = std::max(worst, r);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int networks = argc > 1 ? std::atoi(argv[1]) : 40;
  static constexpr std::array<std::array<bytes, 2>, 6> points{
      {{16, 1024}, {1, 1024}, {16, 16}, {1, 16}, {4, 256}, {8, 64}}};
  std::printf("%8s %12s | %-17s | %-17s | %-17s | %s\n", "buffers", "batch x seq", "one order", "fixed at the most",
              "a plan for each", "over the bound: mean, worst");
  for (const std::size_t buffers : {30, 100, 300}) {
    std::mt19937_64 random{7};
    std::array<std::array<ratio, 3>, points.size()> ratios;
    double spent = 0, evaluation = 1e9;
    for (int k = 0; k < networks; ++k) {
      const problem n = random_network(random, buffers);
      const auto start = std::chrono::steady_clock::now();
      const plan order = *solve(n);
      spent += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::vector<bytes> offsets(buffers);
      for (std::size_t v = 0; v < points.size(); ++v) {
        const auto before = std::chrono::steady_clock::now();
        const bytes ours = *evaluate(n, order, points[v], offsets);
        evaluation =
            std::min(evaluation, std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count() /
                                     static_cast<double>(buffers));
        const plan own = *solve(*at_values(n, points[v]));
        ratios[v][0].add(ours, own.lower_bound());
        ratios[v][1].add(order.arena(), own.lower_bound());
        ratios[v][2].add(own.arena(), own.lower_bound());
      }
    }
    for (std::size_t v = 0; v < points.size(); ++v) {
      std::printf("%8zu %6llu x %4llu ", buffers, static_cast<unsigned long long>(points[v][0]),
                  static_cast<unsigned long long>(points[v][1]));
      for (const ratio& r : ratios[v]) std::printf("| %8.4f %8.3f ", r.sum / networks, r.worst);
      std::printf("|\n");
    }
    std::printf("%8zu solved in %.1f ms, evaluated in %.1f ns a buffer\n", buffers, 1e3 * spent / networks,
                1e9 * evaluation);
  }
}
