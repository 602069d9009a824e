#include "plan/large_sets.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace berth_bench {
namespace {

using namespace berth::plan;

class generator {
 public:
  explicit generator(std::uint32_t seed) : bits_{seed} {}
  std::uint64_t below(std::uint64_t n) { return bits_() % n; }
  double share() { return static_cast<double>(bits_() >> 11) / 0x1p53; }
  double exponential(double mean) { return -mean * std::log(1 - share()); }
  double normal() { return std::sqrt(exponential(2)) * std::cos(2 * 3.14159265358979 * share()); }

 private:
  std::mt19937_64 bits_;
};

void add(problem& p, std::uint64_t lower, double life, double size, std::uint64_t end) {
  const auto first = static_cast<tick>(lower);
  p.add({.size = 256 * std::max<berth::bytes>(1, static_cast<berth::bytes>(size)),
         .live = {first, std::min(first + 1 + static_cast<tick>(life), static_cast<tick>(end))}});
}

// Mostly short lives, some of hundreds of ticks, some of a twentieth of all; sizes over many orders of magnitude.
problem mixture(std::uint32_t n, std::uint32_t seed) {
  generator random{seed};
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    const double kind = random.share();
    const double mean = kind < 0.7 ? 8 : kind < 0.97 ? 300 : n / 20.0;
    const std::uint64_t lower = random.below(n);
    add(p, lower, random.exponential(mean), std::exp(6 + 2 * random.normal()), n);
  }
  return p;
}

// Sizes and lives similar everywhere, so that most time slots are tall.
problem even(std::uint32_t n, double mean_life, generator random) {
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint64_t lower = random.below(n);
    add(p, lower, 2 * mean_life * random.share(), 1 + static_cast<double>(random.below(4096)), n);
  }
  return p;
}
problem even_hundred(std::uint32_t n, std::uint32_t seed) {
  return even(n, 100, generator{seed});
}
problem even_thousand(std::uint32_t n, std::uint32_t seed) {
  return even(n, 1000, generator{seed});
}

// Makes blocks of a transformer, forwards and, for training, backwards. Each block has all activations of one of a few
// sequence lengths, a tenth of them kept for the way back.
problem transformer(std::uint32_t n, bool trains, generator random) {
  constexpr std::uint64_t ops = 24;
  problem p;
  const std::uint64_t ways = trains ? 2 : 1;
  const std::uint64_t blocks = n / (ops * ways) + 1;
  const std::uint64_t end = blocks * ops * ways;
  const std::uint64_t width = 4 * (4 + random.below(8));
  static constexpr double share[ops] = {1, 1, 3, 1, 1, 1, 4, 4, 1, 1, 1, 0.1, 1, 4, 4, 4, 1, 1, 0.1, 2, 2, 1, 1, 1};
  double length = 64;
  for (std::uint64_t k = 0; p.buffers.size() < n; ++k) {
    if (k / ops % 16 == 0 && k % ops == 0) length = static_cast<double>(32 + random.below(8) * 32);
    const std::uint64_t op = k % ops;
    const double size = share[op] * length * static_cast<double>(width);
    const bool kept = trains && k < blocks * ops && random.below(10) == 0;
    const double life = kept                 ? static_cast<double>(end - 2 * k)
                        : op == 0 || op == 9 ? static_cast<double>(ops)
                                             : static_cast<double>(random.below(4));
    add(p, k, life, size, end);
  }
  return p;
}
problem inference(std::uint32_t n, std::uint32_t seed) {
  return transformer(n, false, generator{seed});
}
problem training(std::uint32_t n, std::uint32_t seed) {
  return transformer(n, true, generator{seed});
}

constexpr std::array<large_kind, 5> kinds{{{"mixture", mixture},
                                           {"even_hundred", even_hundred},
                                           {"even_thousand", even_thousand},
                                           {"inference", inference},
                                           {"training", training}}};

}  // namespace

std::span<const large_kind> large_kinds() {
  return kinds;
}

}  // namespace berth_bench
