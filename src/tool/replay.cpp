// berth replay: an allocation log through a policy, on a device without memory.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "berth/model/input_error.hpp"
#include "berth/trace/snapshot.hpp"
#include "tool/command_line.hpp"
#include "tool/guided_playback.hpp"
#include "tool/output.hpp"
#include "tool/playback.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/trace_input.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

// "1GiB", "1073741824" or "101%" of the log's peak live bytes.
bytes read_capacity(const std::string& text, bytes peak) {
  const auto n = parse_bytes_or_share(text, peak);
  if (n && (*n > 0 || (text.ends_with('%') && peak == 0))) return *n;
  throw usage_error("--capacity: '" + text +
                    "' is neither a number of bytes, such as 1GiB, nor a percentage of the peak");
}

struct replay_call {
  std::string file;
  std::string policy = "berth";
  std::string capacity;  // empty: where the pool is never tight
  bool guided = false;
  bool json = false;
};

trace::log read_log(const std::string& path) {
  trace_input input = read_trace_input(path);
  if (auto* log = std::get_if<trace::log>(&input)) return std::move(*log);
  if (const auto* snapshot = std::get_if<trace::snapshot>(&input)) return trace::to_log(*snapshot);
  if (const auto* engine = std::get_if<trace::engine_log>(&input)) return trace::to_log(engine->history);
  throw model::input_error(path, std::string{std::holds_alternative<plan_facts>(input) ? "a plan" : "a problem"} +
                                     ", not a log: it allocates nothing (berth report, berth view)");
}

int print_guided(const replay_call& c, const trace::log_summary& log, bytes capacity, const guided_figures& r) {
  const double over = log.peak_live == 0 ? 0 : static_cast<double>(r.held) / static_cast<double>(log.peak_live);
  if (c.json) {
    print_json(nlohmann::json{{"policy", "guided"},
                              {"capacity", capacity},
                              {"peak_live_bytes", log.peak_live},
                              {"peak_reserved_bytes", r.held},
                              {"plan_bytes", r.counts.parts},
                              {"lower_bound", r.counts.lower_bound},
                              {"allocs", log.allocations},
                              {"steps", r.counts.steps},
                              {"planned", r.counts.planned},
                              {"elsewhere", r.counts.elsewhere},
                              {"passed", r.counts.passed},
                              {"broken_up", r.counts.broken_up},
                              {"device_calls", r.device_calls},
                              {"ns_per_op", r.ns_per_op.median},
                              {"ns_per_op_min", r.ns_per_op.least},
                              {"ns_per_op_max", r.ns_per_op.most},
                              {"refusal", r.counts.refusal},
                              {"unmatched_frees", log.unmatched_frees},
                              {"failed_at", or_null(r.failed_at)}});
  } else {
    std::printf("%s as a step, %" PRIu64 " times through a guided pool, capacity %s\n", printable(c.file).c_str(),
                r.counts.steps, human(capacity).c_str());
    std::printf("  peak live      %s\n  the plan       %s, no plan needs less than %s\n", human(log.peak_live).c_str(),
                human(r.counts.parts).c_str(), human(r.counts.lower_bound).c_str());
    std::printf("  reserved       %s after the first step (%.2f %% of the peak), %" PRIu64
                " calls of the device after the "
                "second\n",
                human(r.held).c_str(), 100 * over, r.device_calls);
    std::printf("  allocations    %" PRIu64 " as planned, %" PRIu64 " elsewhere in the plan's memory, %" PRIu64
                " by the pool\n",
                r.counts.planned, r.counts.elsewhere, r.counts.passed);
    if (r.counts.broken_up != 0) {
      std::printf("  broken up      %" PRIu64 " times, where the pool needed the plan's memory in a step\n",
                  r.counts.broken_up);
    }
    std::printf("  time           %.1f ns an operation as planned (%.1f to %.1f in %d steps)\n", r.ns_per_op.median,
                r.ns_per_op.least, r.ns_per_op.most, timed_passes);
    if (*r.counts.refusal != 0) std::printf("  no plan for a stream: %s\n", r.counts.refusal);
    if (r.failed_at) std::printf("  out of memory at event %" PRIu64 "\n", *r.failed_at);
  }
  return r.failed_at ? answer_is_no : done;
}

int replay(const replay_call& c) {
  std::optional<progress_line> line{std::in_place, !c.json};
  line->stage("reading " + file_name(c.file));
  const trace::log log = read_log(c.file);
  const playback p = make_playback(log);
  const trace::log_summary summary = trace::summarize(log);
  const bytes capacity =
      c.capacity.empty() ? ample_room(summary.peak_live) : read_capacity(c.capacity, summary.peak_live);
  if (c.guided) {
    if (c.policy != "berth") throw usage_error("--guided: our pool is guided, not another policy");
    const guided_figures r = play_guided(p, capacity, *line);
    line.reset();
    return print_guided(c, summary, capacity, r);
  }
  const spread ns_per_op = time_replays(p, c.policy, capacity, *line);
  const replayed r = replay_once(p, *make_policy(c.policy, capacity, p.streams));
  line.reset();
  // A part of the log says nothing about the whole.
  const double fragmentation = r.at_peak.fragmentation().value_or(0);
  const double over = summary.peak_live == 0
                          ? 1
                          : static_cast<double>(r.of_policy.peak_reserved) / static_cast<double>(summary.peak_live);
  if (c.json) {
    const auto of_whole = [&r](double figure) {
      return r.failed_at ? nlohmann::json(nullptr) : nlohmann::json(figure);
    };
    print_json(nlohmann::json{{"policy", c.policy},
                              {"capacity", capacity},
                              {"peak_live_bytes", summary.peak_live},
                              {"peak_reserved_bytes", r.of_policy.peak_reserved},
                              {"reserved_over_live", of_whole(over)},
                              {"fragmentation", of_whole(fragmentation)},
                              {"allocs", summary.allocations},
                              {"pool_hit_rate", of_whole(r.of_policy.pool_hit_rate)},
                              {"cache_hit_rate", of_whole(r.of_policy.cache_hit_rate)},
                              {"ns_per_op", ns_per_op.median},
                              {"ns_per_op_min", ns_per_op.least},
                              {"ns_per_op_max", ns_per_op.most},
                              {"stitched", r.of_policy.stitched},
                              {"unmatched_frees", summary.unmatched_frees},
                              {"failed_at", or_null(r.failed_at)}});
  } else {
    std::printf("%s through %s, %s %s\n", printable(c.file).c_str(), c.policy.c_str(),
                c.capacity.empty() ? "no limit, on a device of" : "capacity", human(capacity).c_str());
    if (!r.failed_at) {
      std::printf("  reserved/live  %.3f at their peaks, fragmentation %.2f %% at the live peak\n", over,
                  100 * fragmentation);
    }
    std::printf("  peak live      %s\n  peak reserved  %s%s\n", human(summary.peak_live).c_str(),
                human(r.of_policy.peak_reserved).c_str(), r.failed_at ? " until there was no more" : "");
    if (!r.failed_at) {
      std::printf("  allocations    %" PRIu64 ": %.2f %% without the device, %.2f %% from the thread's cache, %" PRIu64
                  " stitched\n",
                  summary.allocations, 100 * r.of_policy.pool_hit_rate, 100 * r.of_policy.cache_hit_rate,
                  r.of_policy.stitched);
    }
    std::printf("  time           %.1f ns an operation (%.1f to %.1f in %d passes)\n", ns_per_op.median,
                ns_per_op.least, ns_per_op.most, timed_passes);
    if (r.failed_at) {
      std::printf("  out of memory at event %" PRIu64 "\n", *r.failed_at);
    }
  }
  return r.failed_at ? answer_is_no : done;
}

}  // namespace

std::function<int()> declare_replay(CLI::App& app) {
  auto c = std::make_shared<replay_call>();
  app.add_option(
         "TRACE", c->file,
         "An allocation log (ev,id,size,stream,thread,t_us as CSV), a recorder's snapshot (JSON), a memory "
         "snapshot of\n"
         "PyTorch (pickle), a log of RMM (CSV) or what XLA laid out (HloProto), plain or gzipped; - is standard input")
      ->required();
  app.add_option("--policy", c->policy, "Our pool, or one of our re-implementations of other allocators' policies")
      ->check(CLI::IsMember(policy_names()))
      ->capture_default_str();
  app.add_option("--capacity", c->capacity,
                 "What it may take: 1GiB, or 101% of the log's peak live bytes;\n"
                 "else there is no limit, on a device of 64 GiB or four times the peak, whichever is more")
      ->check(not_empty)
      ->type_name("BYTES or PERCENT%");
  app.add_flag("--guided", c->guided,
               "The log is one step that repeats: planned after the first time, then served by the plan");
  app.add_flag("--json", c->json, "One JSON object on standard output");
  return [c] { return replay(*c); };
}

}  // namespace berth::tool
