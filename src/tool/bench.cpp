// berth bench memory: the savings of a pool and zero-copy memory, as one table. Every definition is printed with it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"
#include "berth/plan/solve.hpp"
#include "berth/pool/pool.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/value_of.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

namespace {

using clock = std::chrono::steady_clock;

constexpr bytes tensor_bytes = bytes{1} << 20;
constexpr bytes workspace_bytes = bytes{1} << 18;
constexpr int default_rounds = 1000;

constexpr const char* definitions[] = {
    "A round: two inputs, a result and a workspace (three times 1 MiB, 256 KiB) are taken; the host writes the inputs;",
    "the device fills the workspace and copies an input to the result (work that every device's stream has); the host",
    "reads the result; all four are given back.",
    "basic: each is a block of the device, the host's data lie in pageable memory and are copied.",
    "pooled: the same from a pool of device memory.",
    "zero-copy: each is a block of pinned memory, which host and device use in place: nothing is copied.",
    "all: pinned memory from a pool that takes at its start what the plan of a round says that a round needs.",
    "allocation: time in the eight calls that take and give back, a round. copy: time of the copies between host and",
    "device, waited for. total: the whole round. fragmentation: the share of the held bytes that no request can use:",
    "rounding of blocks, by the device's rules, and a pool's holes below the largest request.",
};

struct way {
  const char* name;
  bool pooled, zero_copy, planned;
  // AscendCL's figures in its guide: allocation and copy in us, total in ms, fragmentation in percent.
  double source[4];
};
constexpr way ways[] = {{"basic", false, false, false, {45.2, 120.3, 2.45, 35}},
                        {"pooled", true, false, false, {8.7, 118.9, 1.98, 12}},
                        {"zero-copy", false, true, false, {32.1, 0, 1.52, 5}},
                        {"all", true, true, true, {6.3, 0, 1.23, 3}}};

struct round_figures {
  double allocation_us = 0, copy_us = 0, total_us = 0, fragmentation = 0;
};

class stopwatch {
 public:
  template <class F>
  void time(double& us, F&& f) {
    const auto begin = clock::now();
    f();
    us += std::chrono::duration<double, std::micro>(clock::now() - begin).count();
  }
};

constexpr bytes round_sizes[] = {tensor_bytes, tensor_bytes, tensor_bytes, workspace_bytes};

// Returns a round's need by a plan: both inputs are read into the result, and all four are given back together.
bytes planned_need(const rules::placement& rules) {
  plan::problem round{rules};
  for (const bytes size : round_sizes) round.add({.size = size, .live = {0, 1}});
  return value_of(plan::solve(round)).arena();
}

round_figures measure(const device& where, const way& w, int rounds) {
  const memory_kind kind = w.zero_copy ? memory_kind::pinned : memory_kind::device;
  const rules::placement& rules = w.zero_copy ? where.properties().pinned_rules : where.properties().rules;
  stream s{where};
  pool_options options;
  options.kind = kind;
  if (w.planned) options.initial = planned_need(rules);
  pool memory{where, options};
  pool_statistics filled;  // of the pool, with all blocks of a round
  std::vector<std::byte> host(3 * tensor_bytes, std::byte{1});
  round_figures warm, f;
  stopwatch watch;
  const auto round = [&](round_figures& to) {
    void* blocks[4] = {};
    block pooled[4];
    watch.time(to.allocation_us, [&] {
      for (int i = 0; i < 4; ++i) {
        if (w.pooled) {
          pooled[i] = value_of(memory.allocate(round_sizes[i], s));
          blocks[i] = pooled[i].data();
        } else {
          blocks[i] = value_of(where.allocate(round_sizes[i], kind));
        }
      }
    });
    std::byte* seen[3] = {};
    for (std::size_t i = 0; i < 3; ++i) {
      seen[i] = w.zero_copy ? static_cast<std::byte*>(where.host_address(blocks[i])) : host.data() + i * tensor_bytes;
    }
    std::memset(seen[0], 1, tensor_bytes);
    std::memset(seen[1], 2, tensor_bytes);
    if (!w.zero_copy) {
      watch.time(to.copy_us, [&] {
        for (int i = 0; i < 2; ++i) value_of(s.copy(blocks[i], seen[i], tensor_bytes));
        value_of(s.synchronize());
      });
    }
    value_of(s.fill(blocks[3], std::byte{0}, workspace_bytes));
    value_of(s.copy(blocks[2], blocks[1], tensor_bytes));
    value_of(s.synchronize());
    if (!w.zero_copy) {
      watch.time(to.copy_us, [&] {
        value_of(s.copy(seen[2], blocks[2], tensor_bytes));
        value_of(s.synchronize());
      });
    }
    if (seen[2][0] != std::byte{2} || seen[2][tensor_bytes - 1] != std::byte{2})
      throw std::runtime_error("bench: the result is wrong");
    if (w.pooled && &to == &warm) filled = memory.statistics();
    watch.time(to.allocation_us, [&] {
      for (int i = 0; i < 4; ++i) {
        if (w.pooled) {
          pooled[i] = block{};
        } else {
          where.free(blocks[i], round_sizes[i], kind);
        }
      }
    });
  };
  for (int i = 0; i < 10; ++i) round(warm);
  watch.time(f.total_us, [&] {
    for (int i = 0; i < rounds; ++i) round(f);
  });
  f.allocation_us /= rounds;
  f.copy_us /= rounds;
  f.total_us /= rounds;
  if (w.pooled) {
    const double lost = static_cast<double>(filled.rounding() + filled.unusable);
    f.fragmentation = lost / static_cast<double>(std::max<bytes>(filled.reserved, 1));
  } else {
    double asked = 0, held = 0;
    for (const bytes size : round_sizes) {
      asked += static_cast<double>(size);
      held += static_cast<double>(rules.footprint(size).value_or(size));
    }
    f.fragmentation = 1 - asked / held;
  }
  return f;
}

int run(const std::string& what, const std::string& name, int rounds, bool json) {
  if (what != "memory") throw usage_error("bench: no table is called '" + what + "'; there is: memory");
  const device opened = of_device(name, device::open(name));
  const device_properties& p = opened.properties();
  if (p.name.starts_with("null"))
    throw usage_error("--device " + printable(name) + ": has addresses without memory, and the table copies bytes");
  auto rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf("%s (%s), %d rounds; in brackets what AscendCL's guide prints of its own machine\n\n",
                printable(p.name).c_str(), printable(p.description).c_str(), rounds);
    std::printf("  %-10s %22s %22s %22s %18s\n", "", "allocation, us", "copy, us", "total, ms", "fragmentation, %");
  }
  round_figures basic, all;
  for (const way& w : ways) {
    const round_figures f = measure(opened, w, rounds);
    if (&w == &ways[0]) basic = f;
    all = f;
    rows.push_back({{"way", w.name},
                    {"allocation_us", f.allocation_us},
                    {"copy_us", f.copy_us},
                    {"total_us", f.total_us},
                    {"fragmentation", f.fragmentation}});
    if (json) continue;
    std::printf("  %-10s %13.2f (%6.1f) %13.1f (%6.1f) %13.3f (%6.2f) %10.1f (%5.0f)\n", w.name, f.allocation_us,
                w.source[0], f.copy_us, w.source[1], f.total_us / 1000, w.source[2], 100 * f.fragmentation,
                w.source[3]);
  }
  const double allocation = basic.allocation_us / all.allocation_us, total = basic.total_us / all.total_us;
  if (json) {
    print_json(nlohmann::ordered_json{{"device", p.name},
                                      {"rounds", rounds},
                                      {"ways", rows},
                                      {"allocation_ratio", allocation},
                                      {"total_ratio", total},
                                      {"definitions", definitions}});
    return done;
  }
  std::printf("\n  basic over all: allocation %.1f times, total %.2f times\n\n", allocation, total);
  for (const char* line : definitions) std::printf("  %s\n", line);
  return done;
}

}  // namespace

std::function<int()> declare_bench(CLI::App& app) {
  auto what = std::make_shared<std::string>();
  auto where = std::make_shared<std::string>("host");
  auto rounds = std::make_shared<int>(default_rounds);
  auto json = std::make_shared<bool>(false);
  app.add_option("TABLE", *what, "Which: memory")->required();
  app.add_option("--device", *where, "See berth devices")->capture_default_str();
  app.add_option("--rounds", *rounds, "How often each way is gone, 1 to 1000000")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("N");
  app.add_flag("--json", *json, "One JSON object on standard output");
  return [=] { return run(*what, *where, *rounds, *json); };
}

}  // namespace berth::tool
