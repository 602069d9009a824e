// Runs steps through a guided pool and through the pool alone, side by side in one run.
//
//   `bench_pool_guided`             Logs of its own: training step, inference server, random lifetimes, two streams.
//   `bench_pool_guided LOG.csv...`  Allocation logs (ev,id,size,stream,thread,t_us), each taken as one step.
//   `bench_pool_guided --streams`   Nanoseconds for an operation of a small step, by the stream's number modulo 16.
//
// Blocks alive at a log's end are freed there, so that the step can be repeated. The device has no memory, and its
// streams have no work: the figures are those of the pools. There are twenty steps. Percentages refer to the peak of
// live bytes, rounded to 64 as pools do.
// * `part`: the memory of the plan.
// * `held`: memory of the device at the end of a step from the second on, without a limit.
// * `least`: the least limit of 101, 102, 103, 105, 110, 120 and 150 from which on every request is served; 0: none.
// * `calls`: device calls after the second step, in which the plan takes its memory.
// * `ns`: time of an operation, in the fastest of as many steps as make two million operations.
//
// The same follows with 5 % of the requests changed, differently in each of twenty steps. A request is left out, added,
// larger or smaller by up to a half, or earlier by one. Percentages then refer to the largest peak of those steps. The
// shares of requests served as planned, elsewhere in the plan's memory, and by the pool are added. The last figures are
// for a limit of 102 %. They are the share served as planned, and how often in a step a plan's memory was broken up.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "berth/graph/guided_pool.hpp"
#include "berth/trace/snapshot.hpp"

namespace {

using berth::bytes;
using clock = std::chrono::steady_clock;

struct operation {
  bytes size = 0;
  std::uint32_t block = 0;
  std::uint32_t stream = 0;
  bool allocate = true;
};
using step = std::vector<operation>;

std::uint32_t streams_of(const step& s) {
  std::uint32_t most = 0;
  for (const operation& o : s) most = std::max(most, o.stream);
  return most + 1;
}

bytes peak_of(const step& s) {
  bytes live = 0, peak = 0;
  for (const operation& o : s) {
    const bytes rounded = berth::align_up(o.size, 64);
    live = o.allocate ? live + rounded : live - rounded;
    peak = std::max(peak, live);
  }
  return peak;
}

// Frees the blocks that are alive at the end.
void close(step& s) {
  std::unordered_map<std::uint32_t, operation> live;
  for (const operation& o : s) {
    if (o.allocate) {
      live[o.block] = o;
    } else {
      live.erase(o.block);
    }
  }
  std::vector<operation> rest;
  for (const auto& [block, o] : live) rest.push_back({o.size, o.block, o.stream, false});
  std::ranges::sort(rest, {}, &operation::block);
  s.insert(s.end(), rest.begin(), rest.end());
}

step from_log(const berth::trace::log& log) {
  step s;
  std::unordered_map<std::uint64_t, operation> live;
  std::unordered_map<std::uint32_t, std::uint32_t> streams;
  std::uint32_t blocks = 0;
  for (const auto& e : log) {
    if (e.allocate) {
      const auto stream = streams.emplace(e.stream, static_cast<std::uint32_t>(streams.size())).first->second;
      s.push_back({std::max<bytes>(e.size, 1), blocks++, stream, true});
      live[e.id] = s.back();
    } else if (const auto at = live.find(e.id); at != live.end()) {
      s.push_back(at->second);
      s.back().allocate = false;
      live.erase(at);
    }
  }
  close(s);
  return s;
}

// Changes one request in twenty.
step changed(const step& from, unsigned seed) {
  std::mt19937 random{seed};
  step s;
  std::unordered_map<std::uint32_t, bytes> resized;  // 0: left out
  std::unordered_map<std::uint32_t, std::uint32_t> added;
  std::uint32_t blocks = 0;
  for (const operation& o : from) blocks = std::max(blocks, o.block + 1);
  for (const operation& o : from) {
    operation now = o;
    if (o.allocate && random() % 20 == 0) {
      switch (random() % 4) {
        case 0: resized[o.block] = 0; break;
        case 1:
          added[o.block] = blocks;
          s.push_back({from[random() % from.size()].size, blocks++, o.stream, true});
          break;
        case 2: resized[o.block] = std::max<bytes>(1, o.size / 2 + random() % (o.size + 1)); break;
        default:
          if (!s.empty() && s.back().allocate) {
            s.insert(s.end() - 1, now);
            continue;
          }
      }
    }
    if (const auto at = resized.find(o.block); at != resized.end()) now.size = at->second;
    if (now.size != 0) s.push_back(now);
    if (const auto at = added.find(o.block); !o.allocate && at != added.end()) {
      const auto size = std::ranges::find(s, at->second, &operation::block)->size;
      s.push_back({size, at->second, o.stream, false});
    }
  }
  return s;
}

// --- synthetic steps

step training(std::uint32_t streams) {
  std::mt19937 random{1};
  step s;
  std::uint32_t blocks = 0;
  std::vector<operation> kept;
  const auto take = [&](bytes size, std::uint32_t on) {
    s.push_back({size, blocks++, on, true});
    return s.back();
  };
  const auto give = [&](operation o) {
    o.allocate = false;
    s.push_back(o);
  };
  constexpr int layers = 200;
  for (int i = 0; i < layers; ++i) {
    const auto width = static_cast<bytes>(1 + random() % 8) << 18;
    kept.push_back(take(4 * width, 0));
    kept.push_back(take(width + 64 * (random() % 100), 0));
    for (int k = 0; k < 5; ++k) give(take((random() % 16 + 1) << 12, random() % streams));
  }
  for (int i = layers; i-- > 0;) {
    const operation gradient = take(kept[2 * static_cast<std::size_t>(i)].size, 0);
    for (int k = 0; k < 8; ++k) give(take((random() % 16 + 1) << 14, random() % streams));
    give(kept[2 * static_cast<std::size_t>(i)]);
    give(kept[2 * static_cast<std::size_t>(i) + 1]);
    give(gradient);
  }
  return s;
}

// Makes lifetimes without order.
step random_lifetimes() {
  std::mt19937 random{2};
  step s;
  std::vector<operation> live;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    while (live.size() > 150 + random() % 100) {
      std::swap(live[random() % live.size()], live.back());
      s.push_back(live.back());
      live.pop_back();
    }
    const bytes size = (bytes{1} << (8 + random() % 14)) + random() % 4096;
    s.push_back({size, i, 0, true});
    live.push_back({size, i, 0, false});
  }
  s.insert(s.end(), live.begin(), live.end());
  return s;
}

// --- measuring

// Returns nanoseconds for an operation. Counts requests without memory in `failed`.
double play(berth::memory_source& from, std::vector<berth::stream>& streams, const step& s, std::vector<void*>& at,
            std::uint64_t& failed) {
  at.resize(s.size() + 1);
  const auto before = clock::now();
  for (const operation& o : s) {
    if (o.allocate) {
      const auto block = from.allocate_raw(o.size, streams[o.stream]);
      at[o.block] = block ? *block : nullptr;
      failed += block ? 0 : 1;
    } else {
      from.free(at[o.block], o.size, streams[o.stream]);
    }
  }
  const std::chrono::duration<double, std::nano> took = clock::now() - before;
  return took.count() / static_cast<double>(std::max<std::size_t>(s.size(), 1));
}

struct outcome {
  double ns = 1e9;  // the least of the repeated steps
  bytes reserved = 0;
  std::uint64_t device_calls = 0;  // after the second step
  std::uint64_t failed = 0;
  berth::guided_statistics guided{};
};

constexpr int repeated = 20;

outcome run(const std::vector<step>& steps, bool guided, bytes limit = berth::max_bytes) {
  const auto device = berth::device::open("null:1048576GiB").value();
  std::vector<berth::stream> streams;
  for (std::uint32_t i = 0; i < streams_of(steps.front()); ++i) streams.emplace_back(device);
  berth::pool pool{device, {.limit = limit}};
  std::vector<void*> at;
  outcome o;
  {
    berth::guided_pool over{pool};
    berth::memory_source& from = guided ? static_cast<berth::memory_source&>(over) : pool;
    std::uint64_t calls = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      over.begin_step();
      const double ns = play(from, streams, steps[i], at, o.failed);
      const auto now = pool.statistics();
      if (i <= 1) calls = now.device_calls;
      if (i > 0) o.ns = std::min(o.ns, ns);
      o.device_calls = now.device_calls - calls;
      if (i > 0) o.reserved = std::max(o.reserved, now.reserved);
    }
    o.guided = over.statistics();
  }
  return o;
}

// Returns the least of these shares of the peak under which, and under all larger ones, every request of the steps is
// served. In percent; 0: none.
double least_limit(const std::vector<step>& steps, bool guided, bytes peak) {
  double least = 0;
  for (const double share : {1.5, 1.2, 1.1, 1.05, 1.03, 1.02, 1.01}) {
    if (run(steps, guided, static_cast<bytes>(share * static_cast<double>(peak))).failed != 0) break;
    least = 100 * share;
  }
  return least;
}

// Returns nanoseconds for an operation of a repeated step, in the fastest of many, after the processor has settled.
double fastest(const step& s, std::vector<berth::stream>& streams, bool guided) {
  berth::pool pool{streams.front().get_device()};
  berth::guided_pool over{pool};
  berth::memory_source& from = guided ? static_cast<berth::memory_source&>(over) : pool;
  std::vector<void*> at;
  std::uint64_t failed = 0;
  double least = 1e9;
  for (std::size_t operations = 0, i = 0; i < repeated || operations < 2'000'000; operations += s.size(), ++i) {
    over.begin_step();
    const double ns = play(from, streams, s, at, failed);
    if (i > 1) least = std::min(least, ns);
  }
  return least;
}

// Checks that the place of a stream's lane in the guided pool's tables does not matter.
void print_by_stream() {
  const auto device = berth::device::open("null:1048576GiB").value();
  step s;
  for (std::uint32_t i = 0; i < 64; ++i) s.push_back({1000 + 100 * (i % 7), i, 0, true});
  for (std::uint32_t i = 0; i < 64; ++i) s.push_back({s[i].size, i, 0, false});
  step all;
  for (int i = 0; i < 200; ++i) all.insert(all.end(), s.begin(), s.end());
  std::vector<berth::stream> streams;
  for (int n = 0; n < 16; ++n) {
    streams.insert(streams.begin(), berth::stream{device});
    std::printf("stream %2u  %5.2f ns\n", static_cast<unsigned>(streams.front().id() % 16),
                fastest(all, streams, true));
  }
}

double percent(bytes part, bytes whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

void print(const char* name, const step& s) {
  std::vector<step> same(repeated, s), others(repeated, s);
  bytes most = peak_of(s);
  for (unsigned i = 1; i < repeated; ++i) {
    others[i] = changed(s, i);
    most = std::max(most, peak_of(others[i]));
  }
  const auto device = berth::device::open("null:1048576GiB").value();
  std::vector<berth::stream> streams;
  for (std::uint32_t i = 0; i < streams_of(s); ++i) streams.emplace_back(device);
  const double ns = fastest(s, streams, true), ns_alone = fastest(s, streams, false);
  const outcome alone = run(same, false), with = run(same, true), differ = run(others, true),
                without = run(others, false);
  const double all = static_cast<double>(differ.guided.planned + differ.guided.elsewhere + differ.guided.passed);
  std::printf("%-28s %8zu %9.1f | %7.2f %7.2f %5llu %5.0f %6.1f | %7.2f %5llu %5.0f %6.1f | ", name, s.size(),
              static_cast<double>(peak_of(s)) / (1 << 20), percent(with.guided.parts, peak_of(s)),
              percent(with.reserved, peak_of(s)), static_cast<unsigned long long>(with.device_calls),
              least_limit(same, true, peak_of(s)), ns, percent(alone.reserved, peak_of(s)),
              static_cast<unsigned long long>(alone.device_calls), least_limit(same, false, peak_of(s)), ns_alone);
  const outcome tight = run(others, true, static_cast<bytes>(1.02 * static_cast<double>(most)));
  std::printf("%7.2f %5.0f %6.1f %5.1f %5.1f %5.1f %6.1f %5.2f | %7.2f %5.0f %6.1f\n", percent(differ.reserved, most),
              least_limit(others, true, most), differ.ns, 100 * static_cast<double>(differ.guided.planned) / all,
              100 * static_cast<double>(differ.guided.elsewhere) / all,
              100 * static_cast<double>(differ.guided.passed) / all,
              100 * static_cast<double>(tight.guided.planned) / all,
              static_cast<double>(tight.guided.broken_up) / (repeated - 1), percent(without.reserved, most),
              least_limit(others, false, most), without.ns);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string{argv[1]} == "--streams") {
    print_by_stream();
    return 0;
  }
  std::printf("%-28s %8s %9s | %34s | %26s | %52s | %20s\n", "", "", "peak", "guided", "pool alone",
              "guided, 5 % changed", "pool alone, changed");
  std::printf("%-28s %8s %9s | %7s %7s %5s %5s %6s | %7s %5s %5s %6s | %7s %5s %6s %5s %5s %5s %6s %5s | %7s %5s %6s\n",
              "step", "calls", "MiB", "part %", "held %", "calls", "least", "ns", "held %", "calls", "least", "ns",
              "held %", "least", "ns", "plan%", "else%", "pool%", "plan%t", "parts", "held %", "least", "ns");
  if (argc < 2) {
    print("training", training(1));
    print("training, two streams", training(2));
    print("random lifetimes", random_lifetimes());
  }
  for (int i = 1; i < argc; ++i) {
    std::ifstream file{argv[i]};
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    const auto log = berth::trace::parse_csv(text);
    if (!file.is_open() || !log) {
      std::fprintf(stderr, "%s: %s\n", argv[i], file.is_open() ? log.error().what : "cannot be read");
      return 2;
    }
    const std::string name = argv[i];
    print(name.substr(name.find_last_of('/') + 1).c_str(), from_log(*log));
  }
  return 0;
}
