// Plans two memories, of which the fast one holds a part of the bytes live at the peak. Prints the cost of an
// assignment that fits by address, beside first fit in order of birth, and the proved bound. A byte in the slow memory
// costs one. Then it uses a slow memory that is little larger, and counts how often there is a plan at all.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "../../tests/plan/first_memory.hpp"
#include "berth/plan/bound.hpp"
#include "berth/plan/solve.hpp"
#include "user_seconds.hpp"

namespace {

using namespace berth::plan;
using berth::bytes;
using berth_bench::user_seconds;

// Four of five buffers live for some ticks, the others long; sizes are lognormal.
problem network(unsigned buffers, double share, unsigned seed) {
  std::mt19937 random(seed);
  const auto ticks = static_cast<tick>(std::max(10U, buffers / 2));
  std::lognormal_distribution<double> size(9, 1.3);
  std::exponential_distribution<double> short_life(1.0 / 4), long_life(4.0 / static_cast<double>(ticks));
  problem p;
  p.alignment = 32;
  for (unsigned i = 0; i < buffers; ++i) {
    const auto lower = static_cast<tick>(random() % static_cast<unsigned long>(ticks));
    const auto life = 1 + static_cast<tick>(random() % 5 != 0 ? short_life(random) : long_life(random));
    p.add({.size = 1 + static_cast<bytes>(size(random)), .live = {lower, std::min(ticks, lower + life)}});
  }
  p.memories = {{.name = "fast", .capacity = static_cast<bytes>(share * static_cast<double>(max_live(p)))},
                {.name = "slow", .cost = 1}};
  return p;
}

// Each of the two memories has half of that share of the peak.
void measure_full(unsigned buffers, double share, unsigned seeds) {
  unsigned found = 0, impossible = 0;
  const double start = user_seconds();
  for (unsigned seed = 0; seed < seeds; ++seed) {
    problem p = network(buffers, share / 2, seed);
    p.memories[1].capacity = p.memories[0].capacity;
    const plan got = *solve(p);
    found += got.has_offsets() ? 1 : 0;
    impossible += got.status == status::infeasible ? 1 : 0;
  }
  std::printf("%5u buffers, both memories %.2f of the peak: found %u of %u, of which %u have none, %.3f s each\n",
              buffers, share, found, seeds, impossible, (user_seconds() - start) / seeds);
  std::fflush(stdout);
}

// `slabs`: the number of slabs of the fast memory, or 0.
void measure(unsigned buffers, double share, unsigned slabs) {
  constexpr unsigned seeds = 8;
  int found = 0, least = 0;
  double cost = 0, bound = 0, first_fit = 0, seconds = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    problem p = network(buffers, share, seed);
    bytes largest = 0;
    for (index i = 0; i < p.buffers.size(); ++i) largest = std::max(largest, p.footprint(i));
    if (slabs != 0) p.max_slab = std::max(largest, *p.memories[0].capacity / slabs);
    const double start = user_seconds();
    const plan got = *solve(p);
    seconds += user_seconds() - start;
    if (!got.has_offsets()) continue;
    ++found;
    least += got.cost <= got.cost_bound ? 1 : 0;
    cost += got.cost;
    bound += got.cost_bound;
    first_fit += first_memory::cost(p);
  }
  std::printf(
      "%5u buffers, fast memory %.1f of the peak%s: found %d of %u, proved least %d, cost %.3f of first fit, "
      "%.3f of its bound, %.3f s each\n",
      buffers, share, slabs != 0 ? " in slabs" : "", found, seeds, least, cost / first_fit, cost / bound,
      seconds / seeds);
  std::fflush(stdout);
}

}  // namespace

int main() {
  constexpr unsigned full_seeds = 40;
  for (const unsigned slabs : {0U, 5U}) {
    for (const unsigned buffers : {30U, 100U, 300U, 1000U}) {
      for (const double share : {0.3, 0.6, 0.9}) measure(buffers, share, slabs);
    }
  }
  for (const unsigned buffers : {30U, 100U, 300U}) {
    for (const double share : {1.05, 1.1, 1.2, 1.4}) measure_full(buffers, share, full_seeds);
  }
}
