// What guards and timing cost: nanoseconds for allocate + free of one block at a time on one thread, whose stream is
// idle. Least and median of many batches, the contestants by turns.
#include "berth/pool/guard.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "berth/pool/debug.hpp"
#include "berth/pool/latency.hpp"
#include "berth/pool/pool.hpp"

namespace {

using namespace berth::literals;
using berth::bytes;

constexpr int batches = 120;
constexpr int pairs = 2000;

double ns_a_pair(berth::memory_source& m, berth::stream& queue, bytes size) {
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < pairs; ++i) {
    void* const block = *m.allocate_raw(size, queue);
    asm volatile("" : : "r"(block) : "memory");
    m.free(block, size, queue);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - before;
  return took.count() / pairs;
}

}  // namespace

int main() {
  std::jthread{[] {}}.join();
  const berth::device host = berth::device::host();
  berth::stream queue{host};
  berth::pool pool{host};
  berth::timing_adaptor timed{pool};
  struct contestant {
    const char* name;
    berth::guard_options options;
  };
  const std::array contestants{
      contestant{"bare pool", {}},
      contestant{"timed (latency.hpp)", {}},
      contestant{"names only", {.red_zone = 0, .quarantine = 0}},
      contestant{"zones", {.quarantine = 0}},
      contestant{"zones, quarantine of 256 KiB", {.quarantine = 256_KiB}},
      contestant{"zones, quarantine of 64 MiB", {.quarantine = 64_MiB}},
      contestant{"watched pool, none sampled", {.quarantine = 0, .sample = 1'000'000'000}},
      contestant{"names, sample=1/64", {.red_zone = 0, .quarantine = 0, .sample = 64}},
      contestant{"zones, sample=1/64", {.quarantine = 0, .sample = 64}},
      contestant{"zones and 64 MiB, sample=1/64", {.quarantine = 64_MiB, .sample = 64}},
      contestant{"pages, no quarantine", {.quarantine = 0, .pages = true}},
      contestant{"pages, quarantine of 1 MiB", {.quarantine = 1_MiB, .pages = true}},
  };
  std::vector<std::unique_ptr<berth::memory_source>> guards;
  for (const contestant& c : contestants) {
    if (c.options.sample == 1) {
      guards.push_back(std::make_unique<berth::guard_adaptor>(pool, c.options));
      continue;
    }
    berth::set_debug(
        {.guards = c.options.red_zone != 0, .quarantine = c.options.quarantine, .sample = c.options.sample});
    guards.push_back(std::make_unique<berth::pool>(host));
    berth::end_debug();
  }
  std::printf("allocate + free, ns                   64 B         256 B         4 KiB\n");
  constexpr std::array sizes{64_B, 256_B, 4_KiB};
  std::array<std::array<std::vector<double>, sizes.size()>, contestants.size()> all;
  for (int batch = 0; batch < batches; ++batch) {
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      for (std::size_t c = 0; c < contestants.size(); ++c) {
        berth::memory_source& m = c == 0   ? static_cast<berth::memory_source&>(pool)
                                  : c == 1 ? static_cast<berth::memory_source&>(timed)
                                           : *guards[c];
        all[c][s].push_back(ns_a_pair(m, queue, sizes[s]));
      }
    }
  }
  for (std::size_t c = 0; c < contestants.size(); ++c) {
    std::printf("%-30s", contestants[c].name);
    for (std::vector<double>& ns : all[c]) {
      std::ranges::sort(ns);
      std::printf("%6.1f (%5.1f)", ns.front(), ns[ns.size() / 2]);
    }
    std::puts("");
  }
}
