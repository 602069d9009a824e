// The cost of guards and timing, the contestants by turns.
//
// First it measures nanoseconds for allocate + free of one block at a time, on one thread whose stream is idle. It
// prints least and median of many batches. Then a stream writes to blocks of watched pools beside a bare one. It prints
// the processor time of all threads for a block, as a ratio to the bare pool's. The middle half of the batches is in
// brackets.
#include "berth/pool/guard.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "berth/pool/adaptors.hpp"
#include "berth/pool/debug.hpp"
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

// Allocates blocks of sizes down to seven eighths of `size`. The stream writes up to `written` bytes of each.
double us_a_used_block(berth::memory_source& m, berth::stream& queue, bytes size, bytes written) {
  static std::minstd_rand random;
  constexpr int blocks = 200;
  const auto now = [] {
    std::timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
  };
  const double before = now();
  for (int i = 0; i < blocks; ++i) {
    const bytes n = size - random() % (size / 8);
    const auto block = m.allocate(n, queue).value();
    queue.fill(block.data(), std::byte{1}, std::min(n, written)).value();
  }
  queue.synchronize().value();
  return (now() - before) / blocks;
}

constexpr std::array used_sizes{4_KiB, 64_KiB, 1_MiB, 6_MiB};

// One pool for each size, so that no other blocks touch its memory.
struct watched_pools {
  watched_pools(const char* called, const berth::debug_options& how, bytes most) : name{called}, limit{most} {
    how.guards || how.pages ? berth::set_debug(how) : berth::end_debug();
    for (auto& p : by_size)
      p = std::make_unique<berth::pool>(berth::device::host(), berth::pool_options{.limit = most});
    berth::end_debug();
  }
  const char* name;
  bytes limit;
  std::array<std::unique_ptr<berth::pool>, used_sizes.size()> by_size;
  std::array<std::vector<double>, used_sizes.size()> us;
};

void measure_used_blocks(bytes written) {
  std::vector<watched_pools> all;
  for (const bytes limit : {4_GiB, 48_MiB}) {
    all.emplace_back("bare", berth::debug_options{}, limit);
    all.emplace_back("guards", berth::debug_options{.guards = true}, limit);
    all.emplace_back("pages", berth::debug_options{.pages = true}, limit);
  }
  berth::stream queue{berth::device::host()};
  for (int batch = -2; batch < 25; ++batch) {
    for (std::size_t s = 0; s < used_sizes.size(); ++s) {
      for (watched_pools& p : all) {
        const double took = us_a_used_block(*p.by_size[s], queue, used_sizes[s], written);
        if (batch >= 0) p.us[s].push_back(took);
      }
    }
  }
  std::printf("\n%-25s %18s %18s %18s %18s\n", written == 4_KiB ? "a page of each written" : "all of each written",
              "4 KiB", "64 KiB", "1 MiB", "6 MiB");
  for (std::size_t c = 0; c < all.size(); ++c) {
    const watched_pools& bare = all[c / 3 * 3];
    std::printf("%-8s limit %4llu MiB  ", all[c].name, static_cast<unsigned long long>(all[c].limit >> 20));
    for (std::size_t s = 0; s < used_sizes.size(); ++s) {
      std::vector<double> shown = all[c].us[s];
      for (std::size_t i = 0; &bare != &all[c] && i < shown.size(); ++i) shown[i] /= bare.us[s][i];
      std::ranges::sort(shown);
      const std::size_t n = shown.size();
      std::printf("  %5.2f (%4.2f-%5.2f)", shown[n / 2], shown[n / 4], shown[n - 1 - n / 4]);
    }
    std::puts(&bare == &all[c] ? " us" : "");
  }
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
  measure_used_blocks(4_KiB);
  measure_used_blocks(6_MiB);
}
