// Measures the cost of a buffer at effort fast, beside effort normal: nanoseconds a buffer for validate, the sweep,
// verify and all of solve(). Prints the least of many batches. The problems are seeded networks of layers with branches
// and a few long-lived buffers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/greedy/sweep.hpp"

namespace {

using namespace berth::plan;

problem network(std::uint32_t buffers) {
  std::mt19937 random(1);
  problem p;
  p.alignment = 64;
  for (std::uint32_t i = 0; i < buffers; ++i) {
    const auto at = static_cast<tick>(i);
    const auto life = 1 + static_cast<tick>(random() % 100 < 90 ? random() % 3 : random() % 40);
    p.add({.size = 256 * (1 + random() % 4096), .live = {at, std::min<tick>(at + 1 + life, buffers + 1)}});
  }
  return p;
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
}
