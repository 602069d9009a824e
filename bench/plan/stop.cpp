// Measures how soon solve() returns after a stop. Problems of all kinds are stopped after growing times, until they end
// by themselves. Prints for each kind the longest answer, in the planning thread's own time (the machine may be busy)
// and on the wall. The result follows.
//
// Usage: `bench_plan_stop [N...]`. N is the number of buffers; default: 100,000 and 1,000,000.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "berth/plan/solve.hpp"
#include "plan/large_sets.hpp"

namespace {

using namespace berth::plan;
using namespace berth_bench;
using wall = std::chrono::steady_clock;

double ms_of(clockid_t of) {
  timespec t{};
  clock_gettime(of, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

struct answer {
  double own_ms = 0;  // from the stop to the return
  double wall_ms = 0;
  bool stopped = false;  // false: it ended before
  plan got;
};

answer stop_after(const problem& p, effort work, double ms) {
  std::atomic<bool> stop{false}, returned{false};
  clockid_t own{};
  pthread_getcpuclockid(pthread_self(), &own);
  double own_at_stop = 0;
  wall::time_point stopped_at;
  const auto start = wall::now();
  std::thread stopper([&] {
    while (!returned && std::chrono::duration<double, std::milli>(wall::now() - start).count() < ms) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    own_at_stop = ms_of(own);
    stopped_at = wall::now();
    stop = true;
  });
  answer out;
  out.got = *solve(p, {.work = work, .stop = &stop});
  const double own_now = ms_of(own);
  const auto now = wall::now();
  out.stopped = stop;
  returned = true;
  stopper.join();
  if (!out.stopped) return out;
  out.own_ms = own_now - own_at_stop;
  out.wall_ms = std::chrono::duration<double, std::milli>(now - stopped_at).count();
  return out;
}

void measure(const std::string& name, const problem& p, effort work) {
  answer longest;
  double when = 0, after = 0;
  int stops = 0, without = 0;
  for (double ms = 0;; ms = ms == 0 ? 2 : ms * 1.6) {
    const answer a = stop_after(p, work, ms);
    if (!a.stopped) {
      after = ms;
      break;
    }
    ++stops;
    without += !a.got.has_offsets();
    if (a.own_ms > longest.own_ms) {
      when = ms;
      longest = a;
    }
    if (ms > 30'000) break;
  }
  std::printf(
      "%-32s longest answer %6.0f ms (%6.0f on the wall), stopped after %6.0f ms; %2d stops, %2d without a plan; "
      "arena/bound then %.3f; ends by itself before %.0f ms\n",
      name.c_str(), longest.own_ms, longest.wall_ms, when, stops, without,
      static_cast<double>(longest.got.arena()) /
          static_cast<double>(std::max<berth::bytes>(1, longest.got.lower_bound())),
      after);
  std::fflush(stdout);
}

problem pinned(problem p) {
  p.buffers[p.buffers.size() / 2].offset = 0;
  return p;
}

problem in_three_memories(problem p) {
  const berth::bytes peak = solve(p, {.work = effort::fast})->lower_bound();
  p.memories = {{.name = "a", .capacity = peak / 4, .cost = 1},
                {.name = "b", .capacity = peak / 2, .cost = 2},
                {.name = "c", .cost = 5}};
  return p;
}

problem in_slabs(problem p) {
  p.max_slab = std::max<berth::bytes>(solve(p, {.work = effort::fast})->lower_bound() / 4, 1 << 20);
  for (const buffer& b : p.buffers) p.max_slab = std::max(*p.max_slab, b.size);
  return p;
}

problem hinted(problem p) {
  std::mt19937_64 random(7);
  for (buffer& b : p.buffers) b.hint = random() % (1 << 26);
  return p;
}

problem penalized(problem p) {
  std::mt19937_64 random(8);
  const std::size_t n = p.buffers.size();
  for (std::size_t k = 0; k < n; ++k) {
    const auto a = static_cast<index>(random() % n), b = static_cast<index>((a + 1 + random() % (n - 1)) % n);
    p.reuse_penalties.push_back({a, b, 1});
  }
  return p;
}

problem by_conflicts(problem p) {
  std::mt19937_64 random(9);
  const std::size_t n = p.buffers.size();
  for (std::size_t k = 0; k < 4 * n; ++k) {
    const auto a = static_cast<index>(random() % n), b = static_cast<index>((a + 1 + random() % (n - 1)) % n);
    if (k == 0) p.conflicts.emplace();
    p.conflicts->push_back({a, b});
  }
  return p;
}

problem in_groups(problem p) {
  for (index i = 0; i + 1 < p.buffers.size(); i += 8) p.buffers[i].alias_group = p.buffers[i + 1].alias_group = i;
  return p;
}

struct change {
  const char* name;
  problem (*make)(problem);
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::uint32_t> sizes;
  std::string only;
  for (int k = 1; k < argc; ++k) {
    const auto n = static_cast<std::uint32_t>(std::strtoul(argv[k], nullptr, 10));
    n == 0 ? static_cast<void>(only = argv[k]) : sizes.push_back(n);
  }
  if (sizes.empty()) sizes = {100'000, 1'000'000};
  constexpr change changes[] = {
      {"pinned", pinned},       {"three memories", in_three_memories}, {"slabs", in_slabs},  {"hints", hinted},
      {"penalties", penalized}, {"explicit conflicts", by_conflicts},  {"groups", in_groups}};
  for (const std::uint32_t n : sizes) {
    const auto run = [&](const std::string& name, const problem& p, effort work) {
      if (name.find(only) != std::string::npos) measure(std::to_string(n) + " " + name, p, work);
    };
    for (const large_kind& k : large_kinds()) {
      const problem p = k.make(n, 1);
      run(k.name, p, effort::normal);
      if (std::string_view{k.name} != "mixture") continue;
      run("mixture fast", p, effort::fast);
      for (const change& c : changes) run(c.name, c.make(p), effort::normal);
    }
  }
}
