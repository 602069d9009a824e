// Measures the memory that the pool holds with its default options and no limit, as a multiple of the peak of live
// bytes. A re-implementation of PyTorch's caching allocator runs beside it. The device is a null device of 64 GiB.
//
// Prints for each workload reserved/live of both, the share of requests that took no lock, and nanoseconds of processor
// time per call. The time is the median and spread of five rounds, with the ratio of the two medians. Usage:
// bench_pool_footprint [SEED [SCALE]]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "support/workloads.hpp"
#include "thread_seconds.hpp"
#include "tool/replay_policies.hpp"

namespace {

using berth::bytes;
using berth::tool::policy;

struct figures {
  double reserved = 0;  // of live
  double hits = 0;
  std::array<double, 5> ns{};  // sorted
};

void play(const berth::workloads::workload& w, policy& through) {
  std::vector<std::uint64_t> handles(w.slots);
  for (const auto& s : w.steps) {
    if (s.allocate) {
      handles[s.slot] = through.allocate(s.size, s.stream);
      if (handles[s.slot] == 0) std::abort();
    } else {
      through.free(handles[s.slot], s.size, s.stream);
      handles[s.slot] = 0;
    }
  }
}

figures measure(const berth::workloads::workload& w, std::string_view name) {
  figures f;
  for (double& ns : f.ns) {
    const std::unique_ptr<policy> one = berth::tool::make_policy(name, bytes{64} << 30, w.streams);
    const double from = berth_bench::thread_seconds();
    play(w, *one);
    ns = 1e9 * (berth_bench::thread_seconds() - from) / static_cast<double>(w.steps.size());
    const policy::figures result = one->result();
    f.reserved = static_cast<double>(result.peak_reserved) / static_cast<double>(w.peak_live);
    f.hits = result.cache_hit_rate;
  }
  std::ranges::sort(f.ns);
  return f;
}

}  // namespace

int main(int count, char** arguments) {
  const auto seed = count > 1 ? static_cast<unsigned>(std::atoi(arguments[1])) : 1u;
  const int scale = count > 2 ? std::max(1, std::atoi(arguments[2])) : 50;
  std::printf("%-30s %-6s %9s | %15s %15s | %5s | %18s %18s %6s\n", "workload", "sizes", "live MiB", "reserved/live",
              "pytorch-like", "hits", "ns per call", "pytorch-like", "ratio");
  for (const berth::workloads::workload& w : berth::workloads::all(seed, scale)) {
    const figures ours = measure(w, "berth");
    const figures theirs = measure(w, "pytorch-like");
    std::printf("%-30s %-6s %9.1f | %15.3f %15.3f | %4.0f%% | %6.0f (%4.0f-%5.0f) %6.0f (%4.0f-%5.0f) %6.2f\n",
                w.name.c_str(), w.repeats ? "repeat" : "differ", static_cast<double>(w.peak_live) / (1 << 20),
                ours.reserved, theirs.reserved, 100 * ours.hits, ours.ns[2], ours.ns.front(), ours.ns.back(),
                theirs.ns[2], theirs.ns.front(), theirs.ns.back(), ours.ns[2] / theirs.ns[2]);
    std::fflush(stdout);
  }
}
