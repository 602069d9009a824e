// berth replay: an allocation log through a policy, on a device without memory.
#include <time.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "berth/model/input_error.hpp"
#include "berth/trace/log.hpp"
#include "model/file.hpp"
#include "tool/replay_policies.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

constexpr int passes = 5;

// One event of the log, made ready so that the measured loop looks nothing up.
struct step {
  bytes size;
  std::uint32_t slot;  // of the block, reused once it is free
  std::uint32_t stream;
  bool allocate;
  std::uint64_t row;  // in the log, from 0
};

struct program {
  std::vector<step> steps;
  std::uint32_t slots = 0;
  std::uint32_t streams = 0;
};

program compile(const trace::log& log, const std::string& path) {
  program p;
  std::unordered_map<std::uint64_t, step> live;
  std::unordered_map<std::uint32_t, std::uint32_t> streams;
  std::vector<std::uint32_t> spare;
  p.steps.reserve(log.size());
  for (std::uint64_t row = 0; row < log.size(); ++row) {
    const trace::log_entry& e = log[row];
    if (e.allocate) {
      const auto [stream, first] = streams.emplace(e.stream, p.streams);
      if (first) ++p.streams;
      std::uint32_t slot = p.slots;
      if (spare.empty()) {
        ++p.slots;
      } else {
        slot = spare.back();
        spare.pop_back();
      }
      const step s{e.size, slot, stream->second, true, row};
      if (!live.emplace(e.id, s).second) {
        throw model::input_error(path, row + 2, "id " + std::to_string(e.id) + " is allocated twice");
      }
      p.steps.push_back(s);
    } else if (const auto block = live.find(e.id); block != live.end()) {
      step s = block->second;
      s.allocate = false;
      s.row = row;
      spare.push_back(s.slot);
      live.erase(block);
      p.steps.push_back(s);
    }
  }
  return p;
}

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct run {
  policy::outcome outcome;
  double ns_per_op = 0;
  std::optional<std::uint64_t> failed_at;
};

run play(const program& p, policy& through) {
  run r;
  std::vector<std::uint64_t> handles(p.slots);
  std::size_t done = 0;
  const double before = thread_seconds();
  for (const step& s : p.steps) {
    if (s.allocate) {
      handles[s.slot] = through.allocate(s.size, s.stream);
      if (handles[s.slot] == 0) {
        r.failed_at = s.row;
        break;
      }
    } else {
      through.free(handles[s.slot], s.size, s.stream);
    }
    ++done;
  }
  r.ns_per_op = 1e9 * (thread_seconds() - before) / static_cast<double>(std::max<std::size_t>(done, 1));
  r.outcome = through.result();
  return r;
}

// "1073741824" or "101%" of the log's peak live bytes.
bytes read_capacity(const std::string& text, bytes peak) {
  const bool percent = !text.empty() && text.back() == '%';
  const char* const end = text.data() + text.size() - (percent ? 1 : 0);
  if (percent) {
    double share = 0;
    const auto [at, failed] = std::from_chars(text.data(), end, share);
    if (failed == std::errc{} && at == end && share > 0 && share <= 1e6) {
      return static_cast<bytes>(static_cast<double>(peak) * share / 100);
    }
  } else {
    bytes n = 0;
    const auto [at, failed] = std::from_chars(text.data(), end, n);
    if (failed == std::errc{} && at == end && n > 0) return n;
  }
  throw usage_error("--capacity: '" + text + "' is neither a number of bytes nor a percentage of the peak");
}

struct call {
  std::string file;
  std::string policy = "berth";
  std::string capacity = "1000%";
  bool json = false;
};

int replay(const call& c) {
  const auto log = trace::parse_csv(model::read_file(c.file));
  if (!log) throw model::input_error(c.file, log.error().number, log.error().what);
  const trace::log_summary summary = trace::summarize(*log);
  const program p = compile(*log, c.file);
  const bytes capacity = read_capacity(c.capacity, summary.peak_live);

  std::vector<run> runs;
  for (int i = 0; i < passes; ++i) {
    const auto through = make_policy(c.policy, capacity, p.streams);
    if (through == nullptr) throw usage_error("--policy: there is none called '" + c.policy + "'");
    runs.push_back(play(p, *through));
  }
  const run& r = runs.front();  // all passes do the same
  std::vector<double> times;
  for (const run& one : runs) times.push_back(one.ns_per_op);
  std::ranges::sort(times);
  const double ns = times[passes / 2];
  const double fragmentation = r.outcome.peak_reserved == 0 ? 0
                                                            : 1 - static_cast<double>(summary.peak_live) /
                                                                      static_cast<double>(r.outcome.peak_reserved);
  if (c.json) {
    nlohmann::json out{{"policy", c.policy},
                       {"capacity", capacity},
                       {"peak_live_bytes", summary.peak_live},
                       {"peak_reserved_bytes", r.outcome.peak_reserved},
                       {"fragmentation", fragmentation},
                       {"allocs", summary.allocations},
                       {"pool_hit_rate", r.outcome.pool_hit_rate},
                       {"cache_hit_rate", r.outcome.cache_hit_rate},
                       {"ns_per_op", ns},
                       {"ns_per_op_min", times.front()},
                       {"ns_per_op_max", times.back()},
                       {"stitched", r.outcome.stitched},
                       {"unmatched_frees", summary.unmatched_frees},
                       {"failed_at", nullptr}};
    if (r.failed_at) out["failed_at"] = *r.failed_at;
    std::puts(out.dump().c_str());
  } else {
    std::printf("%s through %s, capacity %s\n", c.file.c_str(), c.policy.c_str(), human(capacity).c_str());
    std::printf("  peak live      %s\n  peak reserved  %s (fragmentation %.2f %%)\n", human(summary.peak_live).c_str(),
                human(r.outcome.peak_reserved).c_str(), 100 * fragmentation);
    std::printf("  allocations    %llu: %.2f %% without the device, %.2f %% from the thread's cache, %llu stitched\n",
                static_cast<unsigned long long>(summary.allocations), 100 * r.outcome.pool_hit_rate,
                100 * r.outcome.cache_hit_rate, static_cast<unsigned long long>(r.outcome.stitched));
    std::printf("  time           %.1f ns an operation (%.1f to %.1f in %d passes)\n", ns, times.front(), times.back(),
                passes);
    if (r.failed_at) {
      std::printf("  out of memory at event %llu\n", static_cast<unsigned long long>(*r.failed_at));
    }
  }
  return r.failed_at ? answer_is_no : done;
}

}  // namespace

std::function<int()> declare_replay(CLI::App& app) {
  auto c = std::make_shared<call>();
  app.add_option("TRACE", c->file, "An allocation log: ev,id,size,stream,thread,t_us as CSV, plain or gzipped")
      ->required();
  app.add_option("--policy", c->policy,
                 "berth, or one of our re-implementations: first-fit-like, best-fit-like, bfc-like, pytorch-like");
  app.add_option("--capacity", c->capacity, "BYTES, or PERCENT% of the log's peak live bytes");
  app.add_flag("--json", c->json, "One JSON object on standard output");
  return [c] { return replay(*c); };
}

}  // namespace berth::tool
