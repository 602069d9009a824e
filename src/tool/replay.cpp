// berth replay: an allocation log through a policy, on a device without memory.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "berth/model/input_error.hpp"
#include "berth/trace/log.hpp"
#include "tool/playback.hpp"
#include "tool/trace_input.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

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

trace::log read_log(const std::string& path) {
  trace_input input = read_trace_input(path);
  if (auto* log = std::get_if<trace::log>(&input)) return std::move(*log);
  if (const auto* snapshot = std::get_if<trace::snapshot>(&input)) return trace::to_log(*snapshot);
  throw model::input_error(path, "a plan is not replayed: it allocates nothing");
}

int replay(const call& c) {
  const trace::log log = read_log(c.file);
  const playback p = make_playback(log, c.file);
  const trace::log_summary summary = trace::summarize(log);
  const bytes capacity = read_capacity(c.capacity, summary.peak_live);
  const playback_outcome r = play(p, c.policy, capacity);
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
                       {"ns_per_op", r.ns_per_op},
                       {"ns_per_op_min", r.ns_per_op_min},
                       {"ns_per_op_max", r.ns_per_op_max},
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
    std::printf("  time           %.1f ns an operation (%.1f to %.1f in %d passes)\n", r.ns_per_op, r.ns_per_op_min,
                r.ns_per_op_max, playback_outcome::passes);
    if (r.failed_at) {
      std::printf("  out of memory at event %llu\n", static_cast<unsigned long long>(*r.failed_at));
    }
  }
  return r.failed_at ? answer_is_no : done;
}

}  // namespace

std::function<int()> declare_replay(CLI::App& app) {
  auto c = std::make_shared<call>();
  app.add_option(
         "TRACE", c->file,
         "An allocation log (ev,id,size,stream,thread,t_us as CSV) or a recorder's snapshot (JSON), plain or gzipped")
      ->required();
  app.add_option("--policy", c->policy,
                 "berth, or one of our re-implementations: first-fit-like, best-fit-like, bfc-like, pytorch-like");
  app.add_option("--capacity", c->capacity, "BYTES, or PERCENT% of the log's peak live bytes");
  app.add_flag("--json", c->json, "One JSON object on standard output");
  return [c] { return replay(*c); };
}

}  // namespace berth::tool
