// Measures the cost of a buffer at effort fast, beside effort normal: nanoseconds for validate, the sweep, verify and
// all of solve(). Prints the least of many batches. The problems are seeded networks of layers with branches and a few
// long-lived buffers. Then divides the arena and the time of effort fast by those of a simple greedy planner (first fit
// by size, area and birth). Prints the median of 41 networks, with quartiles.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/greedy/sweep.hpp"
#include "thread_seconds.hpp"

namespace {

using namespace berth::plan;

problem network(std::uint32_t buffers, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  problem p;
  p.alignment = 64;
  for (std::uint32_t i = 0; i < buffers; ++i) {
    const auto at = static_cast<tick>(i);
    const auto life = 1 + static_cast<tick>(random() % 100 < 90 ? random() % 3 : random() % 40);
    p.add({.size = 256 * (1 + random() % 4096), .live = {at, std::min<tick>(at + 1 + life, buffers + 1)}});
  }
  return p;
}

// Returns the best arena of first fit by size, by area and by birth, as most runtimes have it.
berth::bytes greedy_arena(const problem& p) {
  berth::bytes best = berth::max_bytes;
  for (int by = 0; by < 3; ++by) {
    std::vector<index> order(p.buffers.size()), placed;
    for (index i = 0; i < order.size(); ++i) order[i] = i;
    const auto key = [&](index i) {
      const buffer& b = p.buffers[i];
      const auto size = static_cast<double>(b.size), life = static_cast<double>(b.live.upper - b.live.lower);
      return by == 0 ? -size : by == 1 ? -size * life : static_cast<double>(b.live.lower);
    };
    std::stable_sort(order.begin(), order.end(), [&](index a, index b) { return key(a) < key(b); });
    std::vector<berth::bytes> at(order.size());
    berth::bytes arena = 0;
    for (const index i : order) {
      const interval live = p.buffers[i].live;
      berth::bytes offset = 0;
      for (const index j : placed) {
        if (p.buffers[j].live.upper <= live.lower || live.upper <= p.buffers[j].live.lower) continue;
        if (at[j] >= offset + p.footprint(i)) break;
        offset = std::max(offset, berth::align_up(at[j] + p.footprint(j), p.alignment));
      }
      at[i] = offset;
      arena = std::max(arena, offset + p.footprint(i));
      placed.insert(std::upper_bound(placed.begin(), placed.end(), offset, [&](auto v, index j) { return v < at[j]; }),
                    i);
    }
    best = std::min(best, arena);
  }
  return best;
}

void print_quartiles(const char* what, std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const std::size_t n = ratios.size();
  std::printf("%s: %.3f (%.3f - %.3f), most %.3f\n", what, ratios[n / 2], ratios[n / 4], ratios[3 * n / 4],
              ratios[n - 1]);
}

void compare_with_greedy() {
  std::vector<double> arenas, times;
  for (std::uint32_t seed = 1; seed <= 41; ++seed) {
    const problem p = network(60 + 10 * seed, seed);
    const double start = berth_bench::thread_seconds();
    const plan fast = *solve(p, {.work = effort::fast});
    const double middle = berth_bench::thread_seconds();
    const berth::bytes rival = greedy_arena(p);
    times.push_back((middle - start) / (berth_bench::thread_seconds() - middle));
    arenas.push_back(static_cast<double>(fast.arena()) / static_cast<double>(rival));
  }
  print_quartiles("effort fast over greedy, arena", arenas);
  print_quartiles("effort fast over greedy, time", times);
}

template <class F>
double least_ns(std::size_t buffers, int batches, F&& f) {
  double least = 1e300;
  for (int k = 0; k < batches; ++k) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count() / static_cast<double>(buffers));
  }
  return least;
}

}  // namespace

int main() {
  for (const std::uint32_t n : {100U, 1000U, 10'000U}) {
    const problem p = network(n);
    const plan fast = *solve(p, {.work = effort::fast});
    const plan normal = *solve(p);
    const int batches = static_cast<int>(200'000 / n);
    std::printf(
        "%6u buffers, ns a buffer: validate %.1f sweep %.1f verify %.1f solve %.1f; normal %.0f; arena over bound "
        "%.4f (%.*s), normal %.4f\n",
        n, least_ns(n, batches, [&] { (void)validate(p); }), least_ns(n, batches, [&] { (void)sweep(p); }),
        least_ns(n, batches, [&] { (void)verify(p, fast); }),
        least_ns(n, batches, [&] { (void)solve(p, {.work = effort::fast}); }), least_ns(n, 3, [&] { (void)solve(p); }),
        static_cast<double>(fast.arena()) / static_cast<double>(fast.lower_bound()),
        static_cast<int>(fast.solver.size()), fast.solver.data(),
        static_cast<double>(normal.arena()) / static_cast<double>(normal.lower_bound()));
  }
  compare_with_greedy();
}
