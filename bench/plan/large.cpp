// Plans large generated sets: arena over bound, user time of solve() and peak memory of each, in a process of its own.
//
//   `bench_plan_large [--fast] [KIND [N [SEED...]]]`  The default is all kinds; 100,000 buffers; seeds 1 to 5.
//   `bench_plan_large --csv KIND N SEED`              Writes the set as `berth plan` reads it.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "berth/plan/solve.hpp"
#include "plan/large_sets.hpp"

namespace {

using namespace berth::plan;
using namespace berth_bench;

double user_seconds(const rusage& u) {
  return static_cast<double>(u.ru_utime.tv_sec) + 1e-6 * static_cast<double>(u.ru_utime.tv_usec);
}

void measure(const large_kind& k, std::uint32_t n, std::uint32_t seed, const options& how) {
  const problem p = k.make(n, seed);
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
  for (const large_kind& k : large_kinds()) {
    if (!words.empty() && words.front() != k.name) continue;
    for (const std::uint32_t seed : seeds) {
      if (csv) {
        write_csv(k.make(n, seed));
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
