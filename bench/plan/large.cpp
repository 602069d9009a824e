// Large sets, made here: arena over bound, user time of solve() and peak memory of each, in a process of its own.
//
//   bench_plan_large [--fast] [KIND [N [SEED...]]]   (all kinds; 100,000 buffers; seeds 1 to 5)
//   bench_plan_large --csv KIND N SEED               writes the set as `berth plan` reads it
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "berth/plan/solve.hpp"

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
problem mixture(std::uint32_t n, generator random) {
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    const double kind = random.share();
    const double mean = kind < 0.7 ? 8 : kind < 0.97 ? 300 : n / 20.0;
    const std::uint64_t lower = random.below(n);
    add(p, lower, random.exponential(mean), std::exp(6 + 2 * random.normal()), n);
  }
  return p;
}

// Sizes and lives alike everywhere, so that most sections are tall.
problem even(std::uint32_t n, double mean_life, generator random) {
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint64_t lower = random.below(n);
    add(p, lower, 2 * mean_life * random.share(), 1 + static_cast<double>(random.below(4096)), n);
  }
  return p;
}
problem even_hundred(std::uint32_t n, generator random) {
  return even(n, 100, random);
}
problem even_thousand(std::uint32_t n, generator random) {
  return even(n, 1000, random);
}

// Blocks of a transformer, forwards and, where it trains, backwards: of each block all activations of one of a few
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
problem inference(std::uint32_t n, generator random) {
  return transformer(n, false, random);
}
problem training(std::uint32_t n, generator random) {
  return transformer(n, true, random);
}

struct kind {
  const char* name;
  problem (*make)(std::uint32_t, generator);
};
constexpr kind kinds[] = {{"mixture", mixture},
                          {"even_hundred", even_hundred},
                          {"even_thousand", even_thousand},
                          {"inference", inference},
                          {"training", training}};

double user_seconds(const rusage& u) {
  return static_cast<double>(u.ru_utime.tv_sec) + 1e-6 * static_cast<double>(u.ru_utime.tv_usec);
}

void measure(const kind& k, std::uint32_t n, std::uint32_t seed, const options& how) {
  const problem p = k.make(n, generator{seed});
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const plan got = *solve(p, how);
  getrusage(RUSAGE_SELF, &after);
  const double took = user_seconds(after) - user_seconds(before);
  std::printf("%-14s n %8u seed %3u  arena/bound %.6f  %.3f s  %6.0f ns a buffer  %5ld MB  %.*s\n", k.name, n, seed,
              static_cast<double>(got.arena()) / static_cast<double>(got.lower_bound()), took, took * 1e9 / n,
              after.ru_maxrss / 1024, static_cast<int>(got.solver.size()), got.solver.data());
}

void write_csv(const problem& p) {
  std::printf("id,lower,upper,size\n");
  for (std::size_t i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    std::printf("%zu,%lld,%lld,%llu\n", i, static_cast<long long>(b.live.lower), static_cast<long long>(b.live.upper),
                static_cast<unsigned long long>(b.size));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  options how;
  bool csv = false;
  while (!words.empty() && words.front().starts_with("--")) {
    if (words.front() == "--fast") how.work = effort::fast;
    csv |= words.front() == "--csv";
    words.erase(words.begin());
  }
  const auto number = [&](std::size_t k) {
    return static_cast<std::uint32_t>(std::strtoul(words[k].c_str(), nullptr, 10));
  };
  const std::uint32_t n = words.size() > 1 ? number(1) : 100'000;
  std::vector<std::uint32_t> seeds;
  for (std::size_t k = 2; k < words.size(); ++k) seeds.push_back(number(k));
  if (seeds.empty()) seeds = {1, 2, 3, 4, 5};
  for (const kind& k : kinds) {
    if (!words.empty() && words.front() != k.name) continue;
    for (const std::uint32_t seed : seeds) {
      if (csv) {
        write_csv(k.make(n, generator{seed}));
        continue;
      }
      std::fflush(stdout);
      const pid_t child = fork();
      if (child == 0) {
        measure(k, n, seed, how);
        std::fflush(stdout);
        _exit(0);
      }
      waitpid(child, nullptr, 0);
    }
  }
}
