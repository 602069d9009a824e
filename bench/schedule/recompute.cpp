// Measures the cost of recomputation. Seeded training steps (tests/schedule/training_graphs.hpp) run in 90 to 30 % of
// the arena of the best order.
//
// Prints by family and budget the extra multiply-adds in % of a step's. They are the mean of the seeds whose budget is
// kept; their number follows. Small steps also have the least possible cost (tests/schedule/recompute_oracle.hpp). Then
// it prints how much smaller the arena gets for at most one more forward pass. Usage: bench_schedule_recompute
#include "berth/schedule/recompute.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "../../tests/schedule/recompute_oracle.hpp"
#include "../../tests/schedule/training_graphs.hpp"
#include "plan/user_seconds.hpp"

namespace {

using namespace berth;

constexpr int percents[] = {90, 80, 70, 60, 50, 40, 30};

struct family {
  const char* name;
  std::function<training::step(std::uint32_t)> make;
  std::uint32_t seeds;
  bool small = false;  // enough for the oracle
};

double sum_of(const std::vector<double>& all) {
  double sum = 0;
  for (const double x : all) sum += x;
  return sum;
}

void measure(const family& f) {
  struct column {
    double extra = 0, least = 0, extra_beside = 0;
    std::uint32_t kept = 0, can_be = 0, both = 0, equal = 0;
  };
  column of[std::size(percents)];
  std::size_t nodes = 0;
  double ms = 0, slowest = 0, smaller = 0;
  for (std::uint32_t seed = 0; seed < f.seeds; ++seed) {
    const training::step s = f.make(seed);
    nodes = std::max(nodes, s.graph.nodes().size());
    schedule::recompute_options o;
    o.cost = s.cost;
    const auto free = schedule::recompute_within(s.graph, max_bytes, o).value();
    const double whole = sum_of(s.cost);
    const auto net = schedule::make_net(s.graph.structure(), rules::host(), {});
    bytes cheap = free.plan.arena();
    for (std::size_t i = 0; i < std::size(percents); ++i) {
      const bytes budget = free.plan.arena() / 100 * static_cast<bytes>(percents[i]);
      const double start = berth_bench::user_seconds();
      const auto found = schedule::recompute_within(s.graph, budget, o).value();
      const double took = 1e3 * (berth_bench::user_seconds() - start);
      ms += took / (f.seeds * std::size(percents));
      slowest = std::max(slowest, took);
      column& c = of[i];
      if (found.extra_cost <= s.forward) cheap = std::min(cheap, found.plan.arena());
      if (found.within) {
        ++c.kept;
        c.extra += 100 * found.extra_cost / whole;
      }
      if (!f.small) continue;
      const test::least_answer least = test::least_extra_cost(*net, s.cost, budget);
      if (!least.complete) continue;
      c.can_be += least.cost < 1e300 ? 1 : 0;
      if (!found.within || least.cost > 1e300) continue;
      ++c.both;
      c.least += 100 * least.cost / whole;
      c.extra_beside += 100 * found.extra_cost / whole;
      c.equal += found.extra_cost <= least.cost * (1 + 1e-9) ? 1 : 0;
    }
    smaller += static_cast<double>(free.plan.arena()) / static_cast<double>(cheap) / f.seeds;
  }
  std::printf("%-16s %5zu", f.name, nodes);
  for (const column& c : of) {
    if (c.kept == 0)
      std::printf("      - ");
    else
      std::printf(" %5.1f/%-2u", c.extra / c.kept, c.kept);
  }
  std::printf(" %6.2f %8.1f %8.1f\n", smaller, ms, slowest);
  if (f.small) {
    std::printf("  beside the least    ");
    for (const column& c : of) {
      if (c.both == 0)
        std::printf("      - ");
      else
        std::printf(" %5.1f/%-2u", c.least / c.both, c.can_be);
    }
    std::uint32_t both = 0, equal = 0, can_be = 0;
    double least = 0, extra = 0;
    for (const column& c : of) {
      both += c.both;
      equal += c.equal;
      can_be += c.can_be;
      least += c.least;
      extra += c.extra_beside;
    }
    std::printf("  least in %u of %u, kept %u of %u, cost over the least %.3f\n", equal, both, both, can_be,
                least > 0 ? extra / least : 1.0);
  }
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::printf("%-16s %5s", "family", "nodes");
  for (const int p : percents) std::printf("  %3d %% ", p);
  std::printf(" %6s %8s %8s\n", "1/size", "ms", "slowest");
  using training::step;
  for (const family& f : std::vector<family>{
           {"chain 6", [](std::uint32_t s) { return training::chain(6, s); }, 6, true},
           {"chain 8", [](std::uint32_t s) { return training::chain(8, s); }, 4, true},
           {"residual 2", [](std::uint32_t s) { return training::residual(2, s); }, 4, true},
           {"u_net 1", [](std::uint32_t s) { return training::u_net(1, s); }, 4, true},
           {"chain 16", [](std::uint32_t s) { return training::chain(16, s); }, 5},
           {"chain 64", [](std::uint32_t s) { return training::chain(64, s); }, 3},
           {"residual 16", [](std::uint32_t s) { return training::residual(16, s); }, 5},
           {"transformer 4", [](std::uint32_t s) { return training::transformer(4, s); }, 5},
           {"transformer 12", [](std::uint32_t s) { return training::transformer(12, s); }, 3},
           {"u_net 4", [](std::uint32_t s) { return training::u_net(4, s); }, 5},
       }) {
    measure(f);
  }
}
