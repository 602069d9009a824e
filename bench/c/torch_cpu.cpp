// Runs training steps of libtorch by turns, in separate processes. The allocators are its own, a pool, and a pool
// limited to 101 % of the live bytes. Prints live and held bytes, calls, page faults and time. Usage: bench_torch_cpu
// [ROUNDS]. The build needs libtorch-dev (tests/c).
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "berth/torch.h"
#include "torch_steps.hpp"

namespace {
using torch_steps::net;
constexpr int warm = 5, steps = 30;

struct figures {
  double ms = 0;      // the median step
  double calls = 0;   // of the allocator, a step
  double faults = 0;  // a step
  double device = 0;  // requests to the system, a step; own allocator: each one is malloc's
  std::uint64_t peak = 0, held = 0;
  float loss = 0;
};

figures measure(net which, bool pooled) {
  figures f;
  if (!pooled) torch_steps::count_own_allocator();
  if (pooled && dlopen(EXTENSION, RTLD_NOW) == nullptr) std::exit(1);
  torch_steps::set_threads(1);
  torch_steps::training run{which, 7};
  for (int i = 0; i < warm; ++i) f.loss = run.step();
  berth_pool_statistics s{};
  s.struct_size = sizeof s;
  const auto calls = [&] {
    if (!pooled) return torch_steps::counted().calls;
    berth_torch_statistics(berth_torch_host, &s);
    return s.allocations;
  };
  const auto faults = [] {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return u.ru_minflt;
  };
  const auto calls_before = calls();
  const auto device_before = s.device_hits;
  const auto faults_before = faults();
  std::array<double, steps> ms{};
  for (double& one : ms) {
    const auto from = std::chrono::steady_clock::now();
    f.loss = run.step();
    one = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
  }
  f.faults = static_cast<double>(faults() - faults_before) / steps;
  f.calls = static_cast<double>(calls() - calls_before) / steps;
  f.device = static_cast<double>(s.device_hits - device_before) / steps;
  f.peak = pooled ? s.live_peak : torch_steps::counted().peak;
  f.held = pooled ? s.reserved_peak : 0;
  std::ranges::nth_element(ms, ms.begin() + steps / 2);
  f.ms = ms[steps / 2];
  return f;
}

// Returns nothing if the run ended early: it was not served.
std::optional<figures> apart(net which, bool pooled, std::uint64_t limit = 0) {
  int ends[2];
  figures f;
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    if (limit != 0) setenv("BERTH_TORCH_LIMIT", std::to_string(limit).c_str(), 1);
    f = measure(which, pooled);
    const bool whole = write(ends[1], &f, sizeof f) == sizeof f;
    std::_Exit(whole ? 0 : 1);
  }
  int status = 0;
  close(ends[1]);
  const bool whole = read(ends[0], &f, sizeof f) == sizeof f;
  close(ends[0]);
  waitpid(child, &status, 0);
  if (!whole || status != 0) return std::nullopt;
  return f;
}
}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  std::printf("%-13s %-9s %9s %10s %10s %11s %12s %8s %9s\n", "net", "from", "live MB", "held MB", "held/live",
              "calls/step", "device/step", "faults", "ms/step");
  for (int round = 0; round < rounds; ++round) {
    for (const net which : {net::convolutions, net::transformer}) {
      const char* const name = which == net::convolutions ? "convolutions" : "transformer";
      constexpr double mb = 1e6;
      const auto own = apart(which, false);
      if (!own) return 1;
      std::printf("%-13s %-9s %9.2f %10s %10s %11.0f %12s %8.0f %9.2f\n", name, "torch", double(own->peak) / mb, "-",
                  "-", own->calls, "-", own->faults, own->ms);
      for (const bool limited : {false, true}) {
        const auto pool = apart(which, true, limited ? own->peak / 100 * 101 : 0);
        const char* const from = limited ? "101 %" : "pool";
        if (!pool) {
          std::printf("%-13s %-9s was not served\n", name, from);
          continue;
        }
        std::printf("%-13s %-9s %9.2f %10.2f %10.4f %11.0f %12.2f %8.0f %9.2f  %.2f of torch's time, loss %s\n", name,
                    from, double(pool->peak) / mb, double(pool->held) / mb, double(pool->held) / double(pool->peak),
                    pool->calls, pool->device, pool->faults, pool->ms, pool->ms / own->ms,
                    own->loss == pool->loss ? "equal" : "DIFFERENT");
      }
    }
  }
}
