// berth report FILE: the health of a plan, an allocation log, a snapshot, another engine's log or a problem's plan, and
// who holds the memory at the peak.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "berth/model/input_error.hpp"
#include "berth/trace/health.hpp"
#include "berth/trace/profile.hpp"
#include "tool/advice.hpp"
#include "tool/cause.hpp"
#include "tool/command_line.hpp"
#include "tool/holdings.hpp"
#include "tool/output.hpp"
#include "tool/planned.hpp"
#include "tool/playback.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/settings.hpp"
#include "tool/survival.hpp"
#include "tool/trace_input.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

using nlohmann::json;

struct report {
  const char* kind = "";
  std::string measured_how;
  trace::health health;
  std::vector<std::pair<const char*, json>> figures;  // keys of --json, in the table's order
  std::vector<trace::named_moment> moments;           // as far as they are known
  tool::peak peak;
  std::vector<named_holding> at_peak;               // largest first
  std::optional<std::vector<named_holding>> leaks;  // by place; nothing where the run has not ended
  std::optional<std::vector<change>> grown;         // since another snapshot: what is alive, by place
  std::optional<std::uint64_t> failed_at;           // of a log: the event for which its replay had no memory
  std::vector<tool::advice> advice;
  std::vector<std::string> settings;    // of --engine
  std::optional<tool::failure> failed;  // of an engine's log
  std::string failed_place;
  std::optional<tool::cause> cause;  // of what is not healthy
  std::string engine;
};

// Judges the fragmentation of the first of these moments that is known.
trace::measurements fragmentation_at(std::initializer_list<std::optional<trace::memory_use>> moments) {
  for (const auto& m : moments) {
    if (m && m->fragmentation()) return {.fragmentation = m->fragmentation()};
  }
  return {};
}

report of(const plan_facts& plan, const std::string&, progress_line&) {
  report r{.kind = "plan",
           .measured_how = "a plan allocates and copies nothing: what is above the lower bound is unusable"};
  trace::memory_use use{.live = std::min(plan.lower_bound, plan.arena), .reserved = plan.arena};
  use.unusable = use.idle();
  r.moments = {{"peak", use}};
  r.health = trace::check(fragmentation_at({use}));
  r.figures = {{"arena_bytes", plan.arena},       {"lower_bound", plan.lower_bound}, {"optimal", plan.optimal},
               {"no_reuse_bytes", plan.no_reuse}, {"buffers", plan.buffers.size()},  {"solver", plan.solver}};
  return r;
}

// Returns what replays of this log under the engine's own settings show.
std::vector<std::string> settings_for(const std::string& engine, const playback& p, bytes peak_live) {
  return engine.empty() ? std::vector<std::string>{} : tried_settings(engine, p, std::nullopt, peak_live);
}

report of(const trace::log& log, const std::string& engine, progress_line& line) {
  const playback p = make_playback(log);
  const trace::log_summary s = trace::summarize(log);
  const pool_options options = replay_options({}, s.peak_live);
  const replayed o = replay_once(p, *make_pool_policy(options, p.streams));
  report r{.kind = "trace",
           .measured_how = "replayed through the pool, on a device without memory; fragmentation: at the peak"};
  trace::measurements m;
  if (s.allocations != 0 && !o.failed_at) {  // a part of the log says nothing about the whole
    m = fragmentation_at({o.at_peak});
    m.allocation_us = time_replays(p, "berth", options.limit, line).median * 1e-3;
    m.pool_hits = o.of_policy.pool_hit_rate;
  }
  if (!o.failed_at) r.moments = {{"peak", o.at_peak}};
  r.moments.push_back({o.failed_at ? "failed" : "now", o.at_end});
  r.health = trace::check(m);
  r.failed_at = o.failed_at;
  r.advice = advise(log, p, o, options, line);
  r.settings = settings_for(engine, p, s.peak_live);
  r.figures = {{"allocations", s.allocations},
               {"frees", s.frees},
               {"unmatched_frees", s.unmatched_frees},
               {"peak_live_bytes", s.peak_live},
               {"peak_reserved_bytes", o.of_policy.peak_reserved},
               {"stitched", o.of_policy.stitched},
               {"alive_at_end_blocks", s.blocks_at_end},
               {"alive_at_end_bytes", s.live_at_end}};
  return r;
}

report of(const trace::snapshot& s, const std::string& engine, progress_line& line) {
  report r{.kind = "snapshot", .measured_how = "by the pool, the device and a stopwatch while it ran; fragmentation: "};
  r.measured_how += s.failed ? "at the last failed request" : "now";
  r.health = trace::check(trace::measure(s));
  const trace::log events = trace::to_log(s);
  const playback p = make_playback(events);
  const bytes peak = trace::summarize(events).peak_live;
  if (s.pool) r.moments = {{"peak", {.live = s.pool->live_peak}}};
  if (s.failed) r.moments.push_back({"failed", trace::use_of(s.failed->at)});
  if (s.pool) r.moments.push_back({"now", trace::use_of(*s.pool)});
  if (s.options) {  // a replay under other options would contradict what was measured
    const pool_options options = replay_options(s.options, peak);
    r.advice = advise(events, p, replay_once(p, *make_pool_policy(options, p.streams)), options, line);
  }
  r.settings = settings_for(engine, p, peak);
  if (s.device && !r.health[3].ok().value_or(true)) {
    r.advice.push_back(
        {.threshold = "zero_copy",
         .cause = human(s.device->staged_bytes) + " in " + std::to_string(s.device->staged_copies) +
                  " copies went through a buffer of the driver's: take host memory of memory_kind::pinned, "
                  "at multiples of the device's copy_alignment"});
  }
  const auto allocations = std::ranges::count(s.events, true, &trace::event::allocate);
  const holdings by_place = alive_in(s);
  holding all;
  for (const auto& [place, h] : by_place) {
    all.blocks += h.blocks;
    all.size += h.size;
  }
  r.figures = {{"ended", s.ended},     {"allocations", allocations}, {"forgotten", s.forgotten},
               {"dropped", s.dropped}, {"alive_blocks", all.blocks}, {"alive_bytes", all.size}};
  if (s.pool) {
    r.figures.insert(r.figures.end(), {{"peak_live_bytes", s.pool->live_peak},
                                       {"peak_reserved_bytes", s.pool->reserved_peak},
                                       {"failures", s.pool->failures}});
  }
  if (s.ended) r.leaks = largest_first(by_place);
  r.cause = cause_of(s);
  return r;
}

std::vector<trace::named_moment> moments_of(const trace::engine_log& log) {
  std::vector<trace::named_moment> all{{"peak", log.at_peak}};
  if (!log.failed.empty()) all.push_back({"failed", log.at_failure});
  all.push_back({"now", log.now});
  return all;
}

report of(const trace::engine_log& log, const std::string& engine, progress_line& line) {
  report r{.kind = "engine", .measured_how = "fragmentation: of the engine's own allocator, ", .engine = log.engine};
  const trace::log events = trace::to_log(log.history);
  const trace::log_summary s = trace::summarize(events);
  const playback p = make_playback(events);
  line.stage("replaying under tighter limits");
  const auto needs = log.failed.empty() ? smallest_limit(p, s.peak_live) : std::nullopt;
  r.failed = last_failure(log, line);
  r.moments = moments_of(log);
  r.health = trace::check(r.failed ? fragmentation_at({r.failed->use}) : fragmentation_at({log.at_peak}));
  r.measured_how += r.failed ? "at the failed request" : "at the peak";
  if (!log.reserved_peak) r.measured_how = "the log does not say what the engine's own allocator held";
  if (!r.failed || log.engine != engine) r.settings = settings_for(engine, p, s.peak_live);
  if (r.failed) {
    r.failed_place = place_of(log.history, r.failed->request.site);
    r.cause = cause_of(log, *r.failed);
  }
  r.figures = {{"engine", log.engine},
               {"device", log.device},
               {"devices", log.devices},
               {"allocations", s.allocations - log.alive_before},
               {"alive_before", log.alive_before},
               {"unmatched", log.unmatched},
               {"failed_requests", log.failed.size()},
               {"peak_live_bytes", s.peak_live},
               {"engine_reserved_bytes", or_null(log.reserved_peak)},
               {"pool_needs_bytes", or_null(r.failed ? r.failed->needs : needs)}};
  return r;
}

// With a band of --fail-on: nothing is in that one or a worse one.
bool healthy(const report& r, trace::band fail_on = trace::band::warning) {
  return trace::worst(r.health) < fail_on && (!r.leaks || r.leaks->empty()) && !r.failed_at && !r.failed;
}

json holdings_json(const std::vector<named_holding>& all, const char* key) {
  json out = json::array();
  for (const auto& [what, h] : all) out.push_back({{key, what}, {"blocks", h.blocks}, {"bytes", h.size}});
  return out;
}

json to_json(const tool::advice& a) {
  json out{{"threshold", a.threshold}, {"cause", a.cause}, {"option", nullptr}};
  if (!a.option.empty())
    out.update({{"option", a.option}, {"value", a.value}, {"before", a.before}, {"after", a.after}});
  return out;
}

json to_json(const tool::failure& f, const std::string& place) {
  json out{{"size", f.request.size},
           {"at", f.request.before},
           {"place", place},
           {"live_bytes", f.use.live},
           {"since", f.since}};
  for (const auto& [key, value] : {std::pair{"reserved_bytes", f.use.reserved},
                                   {"device_free_bytes", f.request.device_free},
                                   {"available_bytes", f.available},
                                   {"pool_needs_bytes", f.needs}}) {
    out[key] = or_null(value);
  }
  if (f.request.holes) {
    out["idle_in_empty_segments_bytes"] = f.request.holes->in_empty_segments;
    out["segments"] = f.request.holes->segments;
  }
  out["pool_survives"] = or_null(f.survived());
  return out;
}

// The figures of a moment by their names, in the order of the table.
std::vector<std::pair<const char*, std::optional<bytes>>> figures_of(const trace::memory_use& u) {
  return {{"reserved", u.reserved}, {"live", u.live},         {"rounding", u.rounding},        {"idle", u.idle()},
          {"cached", u.cached},     {"unusable", u.unusable}, {"largest_hole", u.largest_hole}};
}

json to_json(const trace::memory_use& u) {
  json out;
  for (const auto& [name, n] : figures_of(u)) out[std::string{name} + "_bytes"] = or_null(n);
  return out;
}

json to_json(const std::string& file, const report& r, std::size_t most, trace::band fail_on) {
  json out{{"file", file}, {"kind", r.kind}, {"ok", healthy(r, fail_on)}, {"thresholds", json::array()}};
  out["band"] = trace::name(trace::worst(r.health));
  out["advice"] = json::array();
  for (const tool::advice& a : r.advice) out["advice"].push_back(to_json(a));
  for (const trace::threshold& t : r.health) {
    out["thresholds"].push_back({{"name", t.name},
                                 {"measured", or_null(t.measured)},
                                 {"limit", t.limit},
                                 {"danger", t.danger},
                                 {"must_be", t.at_least ? "above" : "below"},
                                 {"ok", or_null(t.ok())},
                                 {"band", t.measured ? json(trace::name(*t.in())) : json(nullptr)}});
  }
  for (const auto& [key, value] : r.figures) out[key] = value;
  json& memory = out["memory"] = {{"peak", nullptr}, {"failed", nullptr}, {"now", nullptr}};
  for (const auto& [moment, use] : r.moments) memory[moment] = to_json(use);
  out["settings"] = r.settings;
  if (std::string_view{r.kind} == "trace") out["failed_at"] = or_null(r.failed_at);
  out["cause"] = r.cause && !healthy(r, fail_on)
                     ? json{{"name", r.cause->name}, {"text", r.cause->text}, {"advice", r.cause->advice}}
                     : json(nullptr);
  if (!r.engine.empty()) out["failed"] = r.failed ? to_json(*r.failed, r.failed_place) : json(nullptr);
  out["peak"] = {{"bytes", r.peak.size}, {"at", r.peak.at}};
  out["at_peak"] = holdings_json(
      {r.at_peak.begin(), r.at_peak.begin() + static_cast<std::ptrdiff_t>(std::min(most, r.at_peak.size()))}, "what");
  out["leaks"] = r.leaks ? holdings_json(*r.leaks, "place") : json(nullptr);
  if (r.grown) {
    json& since = out["since"] = json::array();
    for (const change& c : *r.grown) {
      since.push_back({{"place", c.what},
                       {"before", {{"blocks", c.before.blocks}, {"bytes", c.before.size}}},
                       {"after", {{"blocks", c.after.blocks}, {"bytes", c.after.size}}}});
    }
  }
  return out;
}

void print_holdings(const std::vector<named_holding>& all, std::size_t most) {
  for (const auto& [what, h] : std::span{all}.first(std::min(most, all.size()))) {
    std::printf("    %12s  %8" PRIu64 " x  %s\n", human(h.size).c_str(), h.blocks, printable(what).c_str());
  }
  if (all.size() > most) std::printf("    ... and %zu more\n", all.size() - most);
}

std::string text_of(const trace::threshold& t, double value) {
  return std::string_view{t.name} == "allocation_us" ? formatted("%.3f us", value) : formatted("%.2f %%", 100 * value);
}

void print(const tool::advice& a) {
  std::printf("  %s: %s", a.threshold, a.cause.c_str());
  if (a.option.empty()) {
    std::puts("");
    return;
  }
  std::printf(";\n    %s of %s makes it %.2f %% instead of %.2f %% (the log replayed under both)\n", a.option.c_str(),
              human_exactly(a.value).c_str(), 100 * a.after, 100 * a.before);
}

void print_moments(const report& r) {
  if (r.moments.empty()) return;
  std::printf("  %-12s", "bytes");
  for (const auto& [name, n] : figures_of({})) std::printf("  %12s", name);
  std::puts("");
  for (const auto& [moment, use] : r.moments) {
    std::printf("  %-12s", moment);
    for (const auto& [name, n] : figures_of(use)) std::printf("  %12s", n ? human(*n).c_str() : "-");
    std::puts("");
  }
}

void print(const tool::failure& f, const report& r) {
  std::printf("  %s failed a request of %s at event %" PRIu64 " (%s)\n", r.engine.c_str(),
              human(f.request.size).c_str(), f.request.before, printable(r.failed_place).c_str());
  std::printf("    %s were alive", human(f.use.live).c_str());
  if (f.use.reserved) std::printf(", %s reserved by its allocator", human(*f.use.reserved).c_str());
  if (f.request.device_free) std::printf(", %s free on the device", human(*f.request.device_free).c_str());
  const std::string needed = f.needs ? human(*f.needs) : "more than there can be";
  const auto survived = f.survived();
  const std::string served = f.since == 0 ? "all that and the request"
                                          : "the request and all since event " + std::to_string(f.since) +
                                                ", before which more was alive than there was now";
  std::printf("\n    Berth's pool needs %s to serve %s%s\n", needed.c_str(), served.c_str(),
              !survived   ? ""
              : *survived ? ": it would have survived"
                          : ": it would have failed too");
}

void print(const std::string& file, const report& r, std::size_t most, trace::band fail_on) {
  const std::string kind = r.engine.empty() ? r.kind : "log of " + r.engine;
  const bool well = healthy(r, fail_on);
  const std::string why = r.cause && !well ? ": " + printable(r.cause->text) : "";
  std::printf("%s: a %s, %s%s\n", printable(file).c_str(), kind.c_str(), well ? "healthy" : "NOT healthy", why.c_str());
  if (!why.empty()) {
    for (const std::string& line : r.cause->advice) std::printf("  %s\n", printable(line).c_str());
  }
  for (const trace::threshold& t : r.health) {
    const char* verdict = t.measured ? trace::name(*t.in()) : "";
    std::printf("  %-22s %14s   %s %-10s %s\n", t.name, t.measured ? text_of(t, *t.measured).c_str() : "not measured",
                t.at_least ? "above" : "below", text_of(t, t.limit).c_str(), verdict);
  }
  std::printf("  (%s)\n", r.measured_how.c_str());
  print_moments(r);
  for (const tool::advice& a : r.advice) print(a);
  for (const std::string& setting : r.settings) std::printf("  %s\n", printable(setting).c_str());
  if (r.failed_at) std::printf("  out of memory at event %" PRIu64 "\n", *r.failed_at);
  for (const auto& [key, value] : r.figures) {
    const std::string_view name = key;
    const bool size = name.ends_with("bytes") || name == "lower_bound";
    const std::string text = value.is_null()     ? "not known"
                             : size              ? human(value.get<bytes>())
                             : value.is_string() ? printable(value.get<std::string>())
                                                 : value.dump();
    std::printf("  %-22s %14s\n", key, text.c_str());
  }
  if (r.failed) print(*r.failed, r);
  std::printf("  peak%s: %s alive at %lld, of which\n", r.kind == std::string_view{"snapshot"} ? " of the record" : "",
              human(r.peak.size).c_str(), static_cast<long long>(r.peak.at));
  print_holdings(r.at_peak, most);
  if (r.grown) {
    std::printf("  alive by place, against the earlier snapshot: %s\n", r.grown->empty() ? "the same" : "what changed");
    print(*r.grown, most);
  }
  if (!r.leaks) return;
  std::printf("  leaks: %s\n", r.leaks->empty() ? "none" : "never freed");
  print_holdings(*r.leaks, r.leaks->size());
}

}  // namespace

static std::vector<change> grown_since(const std::string& earlier, const shown_input& input) {
  const auto* const now = std::get_if<trace::snapshot>(&input);
  if (now == nullptr) throw usage_error("--since: FILE is no snapshot");
  const trace_input before = read_trace_input(earlier);
  const auto* const then = std::get_if<trace::snapshot>(&before);
  if (then == nullptr) throw model::input_error(earlier, "is no snapshot (--since)");
  return compare(alive_in(*then), alive_in(*now));
}

static int print_metrics(const shown_input& input) {
  const auto metrics_of = [](const trace::log& log, const std::optional<pool_statistics>& pool = std::nullopt) {
    return trace::to_open_metrics(trace::profile_of(log), pool);
  };
  std::string text;
  if (const auto* log = std::get_if<trace::log>(&input)) {
    text = metrics_of(*log);
  } else if (const auto* s = std::get_if<trace::snapshot>(&input)) {
    text = metrics_of(trace::to_log(*s), s->pool);
  } else if (const auto* engine = std::get_if<trace::engine_log>(&input)) {
    const std::vector<trace::named_moment> moments = moments_of(*engine);
    text = trace::to_open_metrics(trace::profile_of(trace::to_log(engine->history)), std::nullopt, nullptr, nullptr,
                                  moments);
  } else {
    throw usage_error("--metrics: of logs and snapshots, and this is a plan");
  }
  std::fputs(text.c_str(), stdout);
  return static_cast<int>(done);
}

std::function<int()> declare_report(CLI::App& app) {
  struct call {
    std::string file;
    std::vector<std::string> dims;
    std::string fail_on = "warning";
    std::string since;
    std::string engine;
    bool json = false;
    bool metrics = false;
  };
  auto c = std::make_shared<call>();
  app.add_option(
         "FILE", c->file,
         "A plan of `berth plan` (JSON or CSV), an allocation log (CSV), a snapshot of a recorder (JSON), a memory\n"
         "snapshot of PyTorch (pickle), a log of RMM (CSV), what XLA laid out (HloProto), or a problem or model, which "
         "is planned; - is standard\n"
         "input")
      ->required();
  add_dim_option(app, c->dims);
  CLI::Option* const band =
      app.add_option("--fail-on", c->fail_on, "The band from which on the exit status is 1: warning or danger")
          ->check(CLI::IsMember({"warning", "danger"}))
          ->capture_default_str();
  CLI::Option* const since =
      app.add_option("--since", c->since, "An earlier snapshot: which places hold more, or less, than they did there")
          ->check(not_empty)
          ->type_name("SNAPSHOT");
  app.add_option("--engine", c->engine,
                 "The engine whose settings are tried in replays of a log or a snapshot: pytorch, onnxruntime or rmm")
      ->check(CLI::IsMember({"pytorch", "onnxruntime", "rmm"}));
  CLI::Option* const as_json = app.add_flag("--json", c->json, "One JSON object on standard output");
  app.add_flag("--metrics", c->metrics,
               "Sizes, lifetimes and peaks by size class and stream, and the pool's figures, as OpenMetrics "
               "text;\nnothing is judged")
      ->excludes(as_json)
      ->excludes(band)
      ->excludes(since);
  app.footer(
      "Exit status 1: a figure is in the band of --fail-on or a worse one, a log's replay runs out of memory, a "
      "snapshot taken after the\n"
      "recording was stopped has leaks, another engine's allocator failed a request, or a problem has no plan.\n"
      "Excellent: allocation below 10 us, fragmentation below 10 %, pool hits above 90 %, zero-copy above 80 %.\n"
      "Danger: from 50 us, 30 %, 70 %, 50 % on. Between them: warning.");
  return [c]() -> int {
    try {
      constexpr std::size_t most = 10;
      const trace::band fail_on = c->fail_on == "danger" ? trace::band::danger : trace::band::warning;
      std::optional<progress_line> line{std::in_place, !c->json};
      const shown_input input = read_shown_input(c->file, c->dims, *line);
      if (c->metrics) {
        line.reset();
        return print_metrics(input);
      }
      const std::string engine = c->engine == "pytorch"       ? "PyTorch"
                                 : c->engine == "onnxruntime" ? "ONNX Runtime"
                                 : c->engine == "rmm"         ? "RMM"
                                                              : "";
      report r = std::visit([&](const auto& one) { return of(one, engine, *line); }, input);
      const std::vector<life> all = lives(input);
      r.peak = peak_of(all);
      r.at_peak = largest_first(alive_at(all, r.peak.at));
      if (!c->since.empty()) r.grown = grown_since(c->since, input);
      line.reset();
      if (c->json) {
        print_json(to_json(c->file, r, most, fail_on));
      } else {
        print(c->file, r, most, fail_on);
      }
      return static_cast<int>(healthy(r, fail_on) ? done : answer_is_no);
    } catch (const no_plan& why) {
      return say_no(why.what(), c->json);
    }
  };
}

}  // namespace berth::tool
