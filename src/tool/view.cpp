// berth view: a plan, an allocation log, a snapshot or a problem's plan as one self-contained page, or as a trace for
// Perfetto.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "berth/core/hook.hpp"
#include "model/file.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/planned.hpp"
#include "tool/playback.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/trace_input.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

using nlohmann::json;

// The addresses of stitched blocks, heard while it lives.
class stitch_listener {
 public:
  stitch_listener() : before_{set_hook(&hook_)} {}
  stitch_listener(const stitch_listener&) = delete;
  stitch_listener& operator=(const stitch_listener&) = delete;
  ~stitch_listener() { set_hook(before_); }
  [[nodiscard]] const std::unordered_set<std::uint64_t>& addresses() const { return addresses_; }

 private:
  static void hear(void* context, const memory_event& e) noexcept {
    if (e.kind != memory_event_kind::pool_stitch) return;
    static_cast<stitch_listener*>(context)->addresses_.insert(reinterpret_cast<std::uintptr_t>(e.address));
  }

  std::unordered_set<std::uint64_t> addresses_;
  hook hook_{hear, this};
  const hook* before_;
};

// Shows stitched blocks above the rest, each at the lowest place that is free then. They lie at addresses of their own,
// used once, far from all others.
void add_stitched(trace::picture& p, std::vector<trace::rectangle> stitched) {
  if (stitched.empty()) return;
  bytes top = 0;
  for (const trace::rectangle& r : p.rectangles) top = std::max(top, r.offset + r.size);
  p.addresses.emplace_back(top, max_bytes);
  std::vector<trace::rectangle> alive;  // by offset
  for (trace::rectangle& r : stitched) {
    std::erase_if(alive, [&r](const trace::rectangle& other) { return other.upper <= r.lower; });
    r.offset = top;
    auto at = alive.begin();
    for (; at != alive.end() && at->offset - r.offset < r.size; ++at) r.offset = at->offset + at->size;
    alive.insert(at, r);
    p.rectangles.push_back(r);
  }
}

// Returns the picture of a log or snapshot. `at` is by block, in the order of `blocks`.
trace::picture picture_of_events(std::vector<life> blocks, const std::vector<std::uint64_t>& at,
                                 std::vector<double> when, const std::unordered_set<std::uint64_t>& stitched_at,
                                 std::optional<trace::failed_mark> failed = std::nullopt) {
  trace::picture p;
  p.failed = failed;
  p.tick = "event";
  p.lower_bound_name = "peak live";
  p.rectangles.reserve(blocks.size());
  std::vector<trace::rectangle> stitched;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto& to = stitched_at.contains(at[i]) ? stitched : p.rectangles;
    to.push_back({.name = std::move(blocks[i].what),
                  .offset = at[i],
                  .size = blocks[i].size,
                  .lower = blocks[i].lower,
                  .upper = blocks[i].upper,
                  .memory = ""});
  }
  when.push_back(when.empty() ? 0 : when.back());
  for (std::size_t i = 1; i < when.size(); ++i) when[i] = std::max(when[i], when[i - 1]);
  p.when_us = std::move(when);
  trace::close_gaps(p);
  add_stitched(p, std::move(stitched));
  return p;
}

trace::picture picture_of(const trace::log& log) {
  const playback steps = make_playback(log);
  const trace::log_summary s = trace::summarize(log);
  const auto pool = make_policy("berth", ample_room(s.peak_live), steps.streams);
  std::vector<std::uint64_t> at;  // by allocation
  const stitch_listener listener;
  (void)place(steps, *pool, [&at](std::uint64_t, std::uint64_t address) { at.push_back(address); });
  std::vector<double> when;
  for (const trace::log_entry& e : log) when.push_back(e.t_us);
  std::vector<life> blocks = lives(log);
  blocks.resize(std::min(blocks.size(), at.size()));  // fewer only where there was no memory
  std::size_t next = 0;
  for (const trace::log_entry& e : log) {
    if (e.allocate && next < blocks.size()) {
      blocks[next++].what = "id " + std::to_string(e.id) + ", stream " + std::to_string(e.stream);
    }
  }
  trace::picture p = picture_of_events(std::move(blocks), at, std::move(when), listener.addresses());
  p.lower_bound = s.peak_live;
  p.facts = {{"peak live", human(s.peak_live)},
             {"peak reserved", human(pool->result().peak_reserved)},
             {"allocations", std::to_string(s.allocations)},
             {"alive at the end", human(s.live_at_end)}};
  return p;
}

trace::picture picture_of(const trace::snapshot& s, std::optional<trace::failed_mark> failed = std::nullopt) {
  std::vector<std::uint64_t> at;
  std::vector<double> when;
  for (const trace::event& e : s.events) {
    when.push_back(e.t_us);
    if (e.allocate) at.push_back(e.address);
  }
  const trace::log_summary sum = trace::summarize(trace::to_log(s));
  trace::picture p = picture_of_events(lives(s), at, std::move(when), {}, failed);
  p.lower_bound = sum.peak_live;
  p.facts = {{"peak live", human(sum.peak_live)},
             {"allocations", std::to_string(at.size())},
             {s.ended ? "leaked" : "alive", human(sum.live_at_end)}};
  if (s.forgotten != 0) p.facts.emplace_back("events forgotten", std::to_string(s.forgotten));
  if (s.dropped != 0) p.facts.emplace_back("events lost", std::to_string(s.dropped));
  if (s.pool) {
    p.facts.emplace_back("peak reserved", human(s.pool->reserved_peak));
    p.facts.emplace_back("idle now", human(s.pool->idle()));
  }
  return p;
}

// Returns the picture as the engine's own allocator placed the blocks.
trace::picture picture_of(const trace::engine_log& log) {
  std::optional<trace::failed_mark> failed;
  if (!log.failed.empty()) {
    const trace::failed_request& f = log.failed.back();
    failed = {.at = static_cast<std::int64_t>(f.before), .size = f.size};
    if (f.holes && log.at_failure.largest_hole) {
      failed->hole = *log.at_failure.largest_hole;
      failed->hole_begin = f.holes->largest_at;
    }
  }
  trace::picture p = picture_of(log.history, failed);
  if (log.at_failure.reserved) {
    p.facts.emplace_back("idle at the failed request", human(*log.at_failure.idle()));
    if (log.at_failure.unusable) p.facts.emplace_back("unusable then", human(*log.at_failure.unusable));
  }
  p.facts.emplace_back("by", std::string{log.engine} + ", device " + std::to_string(log.device));
  if (log.reserved_peak) p.facts.emplace_back("peak reserved", human(*log.reserved_peak));
  if (!log.failed.empty()) p.facts.emplace_back("requests it failed", std::to_string(log.failed.size()));
  return p;
}

void write_pickle(const shown_input& input, const std::string& out) {
  const auto* s = std::get_if<trace::snapshot>(&input);
  if (const auto* engine = std::get_if<trace::engine_log>(&input)) s = &engine->history;
  if (s == nullptr) throw usage_error("--out: a pickle is made of a snapshot or of another engine's log");
  model::write_file(out, trace::to_pytorch_pickle(*s));
}

struct view_call {
  std::string file;
  std::string out;
  std::string beside;
  std::vector<std::string> dims;
  bool json = false;
};

std::string title_of(const std::string& file) {
  return file == "-" ? "standard input" : std::filesystem::path{file}.filename().string();
}

trace::former_picture former_of(const view_call& c, const shown_input& now, progress_line& line) {
  const shown_input read = read_shown_input(c.beside, c.dims, line);
  const auto* const was = std::get_if<plan_facts>(&read);
  if (was == nullptr) throw usage_error("--beside: '" + c.beside + "' is neither a plan nor what can be planned");
  if (!std::holds_alternative<plan_facts>(now)) throw usage_error("--beside: '" + c.file + "' is no plan");
  return {.title = title_of(c.beside), .lower_bound = was->lower_bound, .rectangles = was->buffers};
}

}  // namespace

trace::picture picture_of(const plan_facts& plan) {
  trace::picture p;
  p.lower_bound = plan.lower_bound;
  p.rectangles = plan.buffers;
  p.facts = {{"arena", human(plan.arena)},
             {"lower bound", human(plan.lower_bound)},
             {"optimal", plan.optimal ? "proved" : "not proved"},
             {"buffers", std::to_string(plan.buffers.size())},
             {"solver", plan.solver}};
  return p;
}

std::function<int()> declare_view(CLI::App& app) {
  auto c = std::make_shared<view_call>();
  app.add_option(
         "FILE", c->file,
         "A plan of `berth plan` (JSON or CSV), an allocation log (CSV: shown as the pool places it), a snapshot of a\n"
         "recorder (JSON), a memory snapshot of PyTorch (pickle), a log of RMM (CSV), what XLA laid out, or a problem "
         "or model, which\n"
         "is planned; - is standard input")
      ->required();
  add_out_option(
      app, c->out,
      "What to write: PAGE.html, or TRACE.json for ui.perfetto.dev and chrome://tracing, or (of a snapshot or\n"
      "another engine's log) FILE.pickle for PyTorch's memory_viz; - is the page on standard output",
      "--output")
      ->required();
  app.add_option(
         "--beside", c->beside,
         "Of a plan: a former plan (or a problem or model), at the left on the same scale; what moved, grew, shrank, "
         "is new\nor gone is marked, and listed. Buffers of one name are the same one")
      ->check(not_empty);
  add_dim_option(app, c->dims);
  app.add_flag("--json", c->json, "One JSON object on standard output");
  return [c]() -> int {
    try {
      const bool to_standard_output = c->out == "-";
      if (to_standard_output && c->json) throw usage_error("--json and --out -: both to standard output");
      refuse_input_as_output(c->out, {c->file, c->beside});
      std::error_code absent;
      const bool device = std::filesystem::exists(c->out, absent) && !std::filesystem::is_regular_file(c->out, absent);
      if (!to_standard_output && !device && !c->out.ends_with(".html") && !c->out.ends_with(".json") &&
          !c->out.ends_with(".pickle")) {
        throw usage_error("--out: '" + c->out + "' ends neither in .html nor in .json nor in .pickle");
      }
      std::optional<progress_line> line{std::in_place, !c->json};
      if (!c->beside.empty() && (c->out.ends_with(".json") || c->out.ends_with(".pickle"))) {
        throw usage_error("--beside: two plans are shown in a page (.html) only");
      }
      const shown_input input = read_shown_input(c->file, c->dims, *line);
      if (c->out.ends_with(".pickle")) {
        write_pickle(input, c->out);
        line.reset();
        if (c->json) print_json(json{{"pickle", c->out}});
        if (!c->json) std::puts(printable(c->out).c_str());
        return static_cast<int>(done);
      }
      line->stage("drawing");
      trace::picture picture = std::visit([&](const auto& one) { return picture_of(one); }, input);
      picture.title = title_of(c->file);
      if (!c->beside.empty()) picture.before = former_of(*c, input, *line);
      const bool for_perfetto = c->out.ends_with(".json");
      model::write_file(c->out, for_perfetto ? trace::to_chrome_json(picture) : trace::to_html(picture));
      line.reset();
      if (to_standard_output) return static_cast<int>(done);
      json answer{{for_perfetto ? "trace" : "page", c->out}, {"buffers", picture.rectangles.size()}};
      if (picture.before) answer["buffers_before"] = picture.before->rectangles.size();
      if (c->json) print_json(answer);
      if (!c->json) std::puts(printable(c->out).c_str());
      return static_cast<int>(done);
    } catch (const no_plan& why) {
      return say_no(why.what(), c->json);
    }
  };
}

}  // namespace berth::tool
