// Compares keeping, recomputing and moving values in seeded training steps (tests/schedule/training_graphs.hpp). They
// run in half and in three tenths of the arena of the best order, over links of three rates to a slow memory.
//
// Prints by family, budget and rate the cost in % of the step's multiply-adds. It is the mean of the seeds whose budget
// is kept; their number follows. The columns are:
// * The planner of two memories alone (no recomputation; live bytes, not placed).
// * Moves alone.
// * Recomputation alone.
// * Both.
//
// `falls` counts the neighbouring budgets of which the smaller one was cheaper, and all of them. Usage:
// bench_schedule_moves
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "../../tests/schedule/training_graphs.hpp"
#include "berth/schedule/recompute.hpp"
#include "plan/user_seconds.hpp"
#include "schedule/dropping.hpp"

namespace {

using namespace berth;

struct family {
  const char* name;
  std::function<training::step(std::uint32_t)> make;
  std::uint32_t seeds;
};

struct column {
  double extra = 0;
  std::uint32_t kept = 0;
  void add(double percent) {
    extra += percent;
    ++kept;
  }
  void print() const {
    if (kept == 0)
      std::printf("        - ");
    else
      std::printf(" %7.2f/%u", extra / kept, kept);
  }
};

// Measures the planner's moves by itself, in the order found.
void two_memories(const training::step& s, bytes budget, const schedule::transfer& link, double whole, column& to) {
  const auto order = schedule::find_order(s.graph).value();
  const auto n = *schedule::make_net(s.graph.structure(), rules::host(), {});
  const std::vector<std::uint8_t> never(n.size(), 0), always(n.root.size(), 1);
  const std::optional<schedule::transfer> to_slow{link};
  const schedule::means by{n, s.cost, never, always, to_slow};
  const auto steps = schedule::with_planned_copies(by, order.steps, budget);
  if (schedule::trace_steps(n, steps).peak > budget) return;
  to.add(100 * schedule::extra_cost_of(n, steps, s.cost, to_slow) / whole);
}

void measure(const family& f, int percent, double rate, std::uint32_t& falls, std::uint32_t& pairs) {
  column alone, moves, again, both;
  double ms = 0, slowest = 0;
  for (std::uint32_t seed = 0; seed < f.seeds; ++seed) {
    const training::step s = f.make(seed);
    const double whole = std::accumulate(s.cost.begin(), s.cost.end(), 0.0);
    bytes results = 0;
    for (const value& v : s.graph.values()) results += v.kind == value_kind::result ? v.size : 0;
    schedule::recompute_options o;
    o.cost = s.cost;
    const bytes most = schedule::recompute_within(s.graph, max_bytes, o).value().plan.arena();
    const bytes budget = most / 100 * static_cast<bytes>(percent);
    const schedule::transfer link{.bandwidth = rate * static_cast<double>(results) / whole};
    two_memories(s, budget, link, whole, alone);
    const auto add = [&](column& to) {
      const double start = berth_bench::user_seconds();
      const auto found = schedule::recompute_within(s.graph, budget, o).value();
      const double took = 1e3 * (berth_bench::user_seconds() - start);
      ms += took / (3 * f.seeds);
      slowest = std::max(slowest, took);
      if (found.within) to.add(100 * found.extra_cost / whole);
      return found;
    };
    (void)add(again);
    o.move = link;
    const auto here = add(both);
    const auto larger = schedule::recompute_within(s.graph, budget + most / 20, o).value();
    if (here.within && larger.within) {
      ++pairs;
      falls += larger.extra_cost > here.extra_cost ? 1 : 0;
    }
    o.again = false;
    (void)add(moves);
  }
  std::printf("%-16s %3d %% %6.2f", f.name, percent, rate);
  for (const column* c : {&alone, &moves, &again, &both}) c->print();
  std::printf(" %8.0f %8.0f\n", ms, slowest);
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::printf("rate: how often all results could be copied one way while the step runs\n");
  std::printf("%-16s %5s %6s %9s %9s %9s %9s %8s %8s\n", "family", "", "rate", "two mem.", "moves", "again", "both",
              "ms", "slowest");
  std::uint32_t falls = 0, pairs = 0;
  for (const family& f : std::vector<family>{
           {"chain 16", [](std::uint32_t s) { return training::chain(16, s); }, 3},
           {"residual 16", [](std::uint32_t s) { return training::residual(16, s); }, 3},
           {"transformer 4", [](std::uint32_t s) { return training::transformer(4, s); }, 3},
           {"u_net 4", [](std::uint32_t s) { return training::u_net(4, s); }, 3},
       }) {
    for (const int percent : {50, 30}) {
      for (const double rate : {0.25, 1.0, 4.0}) measure(f, percent, rate, falls, pairs);
    }
  }
  std::printf("falls: %u of %u\n", falls, pairs);
}
