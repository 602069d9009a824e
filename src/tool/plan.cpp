// berth plan FILE: offsets for a planning problem.
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/replan.hpp"
#include "berth/plan/solve.hpp"
#include "model/file.hpp"
#include "model/graph_problem.hpp"
#ifdef BERTH_TOOL_RUN
#include "berth/model/program.hpp"
#include "tool/model_argument.hpp"
#endif
#include "tool/trace_input.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

struct plan_call {
  std::vector<std::string> files;
  std::string file;  // the first
  std::string out;
  std::string rules;
  std::string keep;  // a former plan
  std::string effort = "normal";
  std::vector<std::string> dims;  // name=N, of a model
  std::optional<bytes> capacity;
  plan::options options;
  bool pipeline = false;
  bool json = false;
};

// Ctrl-C while a plan is being made: the best so far is taken. A second one ends the program as usual.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void take_the_best(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

model::problem_file read_file(const plan_call& call) {
#ifdef BERTH_TOOL_RUN
  if (names_a_model(call.file)) {
    const model::program p = model::lower(read_model(call.file, call.dims));
    return model::problem_of_graph(call.file, p.graph, rules::host(), [&p](value_id v) { return p.graph[v].name; });
  }
#endif
  if (!call.dims.empty()) throw usage_error("--dim is for models");
  return model::read_problem(call.file);
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The alignments become the least common multiples of the problem's own and the rule's.
void apply_rules(model::problem_file& file, const std::string& name) {
  const auto rule = rules::find(name);
  if (!rule) {
    std::string known;
    for (const auto& r : rules::all()) (known += known.empty() ? "" : ", ") += r.name;
    throw usage_error("--rules: no rules are called '" + name + "'; there are " + known);
  }
  plan::problem& p = file.problem;
  const auto stricter = [&](bytes alignment, bytes granularity) {
    const auto both = rules::strictest({.start_alignment = alignment, .size_granularity = granularity}, *rule);
    if (!both) throw usage_error("--rules: an alignment of the problem and the rule's exceed 64 bits together");
    return *both;
  };
  for (plan::buffer& b : p.buffers) {
    if (b.alignment != 0) b.alignment = stricter(b.alignment, 1).start_alignment;
  }
  const auto both = stricter(p.alignment, p.granularity);
  p.alignment = both.start_alignment;
  p.granularity = both.size_granularity;
  p.tail_pad = std::max(p.tail_pad, rule->tail_pad);
}

// "needs 30 bytes ...; capacity 10".
std::string reason_of(const model::problem_file& file, const plan::plan& answer) {
  std::string text{answer.reason.empty() ? "no plan fits the capacity" : answer.reason};
  if (text.rfind("buffer", 0) == 0 && answer.culprit < file.problem.buffers.size()) {
    text = "buffer '" + file.problem.buffers[answer.culprit].name + "'" + text.substr(6);
  }
  if (answer.number != 0) text += " (" + std::to_string(answer.number) + " bytes)";
  text += "; every plan needs at least " + std::to_string(answer.lower_bound()) + " bytes";
  if (file.problem.capacity) text += ", the capacity is " + std::to_string(*file.problem.capacity);
  return text;
}

int refuse(const plan_call& call, const model::problem_file& file, const plan::plan& answer, double elapsed_ms) {
  const std::string reason = reason_of(file, answer);
  if (call.json) {
    std::puts(nlohmann::json{{"feasible", answer.status == plan::status::infeasible ? nlohmann::json(false) : nullptr},
                             {"status", name(answer.status)},
                             {"reason", reason},
                             {"lower_bound", answer.lower_bound()},
                             {"optimal", false},
                             {"verified", false},
                             {"work", answer.work},
                             {"elapsed_ms", elapsed_ms},
                             {"buffers", nlohmann::json::array()}}
                  .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)
                  .c_str());
  } else {
    std::printf("%s: %s: %s\n", call.file.c_str(), name(answer.status), reason.c_str());
  }
  return answer_is_no;
}

plan_facts facts_of(const model::problem_file& file, const plan::plan& answer) {
  const plan::problem& p = file.problem;
  plan_facts facts{.arena = answer.arena(),
                   .lower_bound = answer.lower_bound(),
                   .optimal = answer.optimal(),
                   .solver = std::string{answer.solver},
                   .buffers = {}};
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const plan::buffer& b = p.buffers[i];
    std::string memory = p.memories.empty() ? "" : p.memories[answer.memory_of.empty() ? 0 : answer.memory_of[i]].name;
    if (!answer.slab_of.empty()) {
      memory += (memory.empty() ? "slab " : ", slab ") + std::to_string(answer.slab_of[i]);
    }
    facts.buffers.push_back({.name = b.name,
                             .offset = answer.offset(i),
                             .size = b.size,
                             .lower = b.lifetimes.empty() ? b.live.lower : b.lifetimes.front().lower,
                             .upper = b.lifetimes.empty() ? b.live.upper : b.lifetimes.back().upper,
                             .memory = std::move(memory)});
  }
  return facts;
}

void write_out(const plan_call& call, const model::problem_file& file, const plan::plan& answer, double elapsed_ms) {
  if (call.out.empty()) return;
  if (ends_with(call.out, ".json")) {
    model::write_file(call.out, model::plan_json(file, answer, elapsed_ms));
  } else if (ends_with(call.out, ".csv")) {
    model::write_file(call.out, model::plan_csv(file, answer));
  } else if (ends_with(call.out, ".html")) {
    trace::picture picture = picture_of(facts_of(file, answer));
    picture.title = std::filesystem::path{call.file}.filename().string();
    model::write_file(call.out, trace::to_html(picture));
  } else {
    model::write_file(call.out, model::plan_header(file, answer));
  }
}

void print_table(const plan_call& call, const model::problem_file& file, const plan::replanned& found,
                 double elapsed_ms) {
  const plan::problem& p = file.problem;
  const plan::plan& answer = found.layout;
  bytes total = 0;
  for (plan::index i = 0; i < p.buffers.size(); ++i) total += p.footprint(i);
  const double over = answer.lower_bound() == 0 ? 0
                                                : 100.0 * static_cast<double>(answer.arena() - answer.lower_bound()) /
                                                      static_cast<double>(answer.lower_bound());
  std::printf("%s\n", call.file.c_str());
  std::printf("  buffers       %zu\n", p.buffers.size());
  std::printf("  without reuse %llu bytes\n", static_cast<unsigned long long>(total));
  std::printf("  arena         %llu bytes\n", static_cast<unsigned long long>(answer.arena()));
  std::printf("  lower bound   %llu bytes\n", static_cast<unsigned long long>(answer.lower_bound()));
  if (answer.optimal()) {
    std::printf("  optimal       yes, proved\n");
  } else {
    std::printf("  optimal       not proved: at most %.3f %% above\n", over);
  }
  if (!p.reuse_penalties.empty()) std::printf("  reuse penalty %g\n", answer.reuse_penalty);
  if (!call.keep.empty()) {
    std::printf("  moved         %zu buffers, %llu bytes%s\n", found.moved,
                static_cast<unsigned long long>(found.moved_bytes), found.fewest ? "; fewer cannot, proved" : "");
  }
  std::printf("  found by      %s, %llu search nodes, %.1f ms%s\n", std::string{answer.solver}.c_str(),
              static_cast<unsigned long long>(answer.work), elapsed_ms,
              !answer.deadline_hit ? ""
              : interrupted        ? ", stopped by Ctrl-C"
                                   : ", stopped by the deadline");
  if (!call.out.empty()) std::printf("  written to    %s\n", call.out.c_str());
}

plan::replanned answer_for(const plan_call& call, const model::problem_file& file) {
  if (call.keep.empty()) {
    auto answer = plan::solve(file.problem, call.options);
    if (!answer) throw model::input_error(call.file, answer.error().what);
    return {.layout = std::move(*answer)};
  }
  const model::former_places former = model::read_former_places(call.keep, file);
  auto answer = plan::replan(file.problem, former.offsets, call.options, former.memory_of, former.slab_of);
  if (!answer) throw model::input_error(call.file, answer.error().what);
  return std::move(*answer);
}

int plan_file(plan_call& call) {
  const auto start = std::chrono::steady_clock::now();
  if (!call.out.empty() && !ends_with(call.out, ".json") && !ends_with(call.out, ".csv") &&
      !ends_with(call.out, ".h") && !ends_with(call.out, ".html")) {
    throw usage_error("--out: '" + call.out + "' ends neither in .json nor in .csv nor in .h nor in .html");
  }
  if (call.options.deadline_s && !std::isfinite(*call.options.deadline_s)) {
    throw usage_error("--deadline: not a number of seconds");
  }
  call.options.work = call.effort == "fast"   ? plan::effort::fast
                      : call.effort == "best" ? plan::effort::best
                                              : plan::effort::normal;
  if (call.files.size() > 1 && !call.pipeline) throw usage_error("several files: only with --pipeline");
  call.file = call.files.front();
  model::problem_file file = call.pipeline ? model::read_pipeline(call.files) : read_file(call);
  if (!call.rules.empty()) apply_rules(file, call.rules);
  if (call.capacity && !file.problem.memories.empty()) {
    throw usage_error("--capacity: the problem has pools with capacities of their own");
  }
  if (call.capacity) file.problem.capacity = call.capacity;
  model::require_valid(file);
  call.options.stop = &interrupted;
  std::signal(SIGINT, take_the_best);
  const plan::replanned found = answer_for(call, file);
  std::signal(SIGINT, SIG_DFL);
  const plan::plan& answer = found.layout;
  const double elapsed_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!answer.has_offsets()) return refuse(call, file, answer, elapsed_ms);
  write_out(call, file, answer, elapsed_ms);
  if (call.json) {
    std::string text = model::plan_json(file, answer, elapsed_ms);
    if (!call.keep.empty()) {
      text.insert(1, "\"moved\":" + std::to_string(found.moved) +
                         ",\"moved_bytes\":" + std::to_string(found.moved_bytes) +
                         ",\"moved_fewest\":" + (found.fewest ? "true," : "false,"));
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    print_table(call, file, found, elapsed_ms);
  }
  return done;
}

}  // namespace

std::function<int()> declare_plan(CLI::App& app) {
  auto call = std::make_shared<plan_call>();
  app.add_option(
         "FILE", call->files,
         "Problem: CSV, berth-problem/1 JSON, ALLOC and FREE list, ggml graph trace, .tflite model (gzipped or\n"
         "not); or a model that runs here: FILE.onnx, builtin:NAME")
      ->required();
  app.add_flag("--pipeline", call->pipeline, "The files are graphs that run one after the other, in one arena");
  app.add_flag("--json", call->json, "One JSON object on standard output");
#ifdef BERTH_TOOL_RUN
  app.add_option("--dim", call->dims, "name=N: binds a dimension that an .onnx FILE leaves open")
      ->allow_extra_args(false);
#endif
  app.add_option("--capacity", call->capacity, "Bytes there are: a plan that needs more is refused")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--rules", call->rules, "Placement rules of a chip, by name");
  app.add_option("--effort", call->effort, "How long to search for a smaller arena")
      ->check(CLI::IsMember({"fast", "normal", "best"}));
  app.add_option("--work", call->options.node_limit, "Search nodes instead of the effort's own number")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", call->options.threads, "Threads; they do not change the plan")->check(CLI::Range(1, 256));
  app.add_option("--deadline", call->options.deadline_s, "Seconds after which the best so far is taken")
      ->check(CLI::PositiveNumber);
  app.add_option("--keep", call->keep,
                 "A former plan, JSON or CSV: buffers stay where it has them as far as the arena allows it");
  app.add_option("--out", call->out,
                 "Also write the plan: FILE.json, FILE.csv, FILE.h (C constants) or FILE.html (a page)");
  return [call] { return plan_file(*call); };
}

}  // namespace berth::tool
