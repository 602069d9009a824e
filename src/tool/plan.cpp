// berth plan FILE: offsets for a planning problem.
#include <algorithm>
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

#include "berth/core/contract.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/memories.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/evaluate.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "model/file.hpp"
#include "model/files/plan_text.hpp"
#include "tool/command_line.hpp"
#include "tool/dimensions.hpp"
#include "tool/memories.hpp"
#include "tool/output.hpp"
#include "tool/plan_call.hpp"
#include "tool/plan_diff.hpp"
#include "tool/plan_folder.hpp"
#include "tool/plan_micro.hpp"
#include "tool/plan_output.hpp"
#include "tool/plan_proof.hpp"
#include "tool/planned.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/progress_line.hpp"
#include "tool/reorder.hpp"
#include "tool/trace_input.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

// Ctrl-C while a plan is being made: the best so far is taken. A second one ends the program as usual.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void take_the_best(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

int refuse(const plan_call& call, const model::problem_file& file, const plan::plan& answer, double elapsed_ms) {
  const std::string reason = reason_of(file, answer);
  if (call.json) {
    std::fputs(model::no_plan_json(file, answer, reason, elapsed_ms).c_str(), stdout);
  } else {
    std::printf("%s: %s: %s\n", printable(call.file).c_str(), name(answer.status), printable(reason).c_str());
  }
  return answer_is_no;
}

// Returns the fields that the call adds to a plan's JSON.
std::string more_json(const plan_call& call, const plan_answer& got) {
  std::string text;
  if (!call.keep.empty()) {
    text += ",\"moved\":" + std::to_string(got.plan.moved) +
            ",\"moved_bytes\":" + std::to_string(got.plan.moved_bytes) +
            ",\"moved_fewest\":" + (got.plan.moved_fewest ? "true" : "false");
  }
  if (got.diff) text += ',' + diff_json(*got.diff);
  if (got.proof_steps) text += ",\"proof_steps\":" + std::to_string(*got.proof_steps);
  if (got.most_bytes) {
    std::string at;
    for (const std::string& each : call.at) {
      const std::size_t equals = each.find('=');
      at += (at.empty() ? "\"" : ",\"") + each.substr(0, equals) +
            "\":" + std::to_string(std::stoull(each.substr(equals + 1)));  // 007 is no JSON
    }
    text += ",\"at\":{" + at + "},\"most_bytes\":" + std::to_string(*got.most_bytes);
  }
  return text;
}

std::string json_of(const plan_call& call, const model::problem_file& file, const plan_answer& got) {
  return model::plan_json(file, got.plan, got.elapsed_ms, more_json(call, got));
}

void write_out(const plan_call& call, const model::problem_file& file, const plan_answer& got) {
  const bool as_json = ends_with(call.out, ".json") || call.out == "-";
  const std::string title = call.file == "-" ? "standard input" : std::filesystem::path{call.file}.filename().string();
  write_plan(call.out, call.prefix, title, file, got.plan, as_json ? json_of(call, file, got) : "");
}

// Throws for options that the kind of the problem excludes.
void require_fitting(const plan_call& call, const model::problem_file& file) {
  const plan::problem& p = file.problem;
  const bool moves = p.has_traffic(), order = !p.dimensions.empty();
  if (!call.at.empty() && !order) throw usage_error("--at: " + call.file + " has no dimensions");
  if (!call.keep.empty() && order) {
    throw usage_error("--keep: " + file.path + " has dimensions: an order is planned anew");
  }
  if (!call.keep.empty() && moves) throw usage_error("--keep: not for a problem with transfers, steps or uses");
  if (ends_with(call.out, ".csv") && order && call.at.empty()) {
    throw usage_error("--out: CSV has no place for the order of a problem with dimensions; use .json or --at");
  }
  // Without links every buffer has one stay.
  if (!p.links.empty() && (ends_with(call.out, ".csv") || ends_with(call.out, ".h"))) {
    throw usage_error("--out: a plan with moves is written to .json or .html; with --memories also say --no-copies");
  }
  if (!moves && !(order && call.at.empty())) return;
  for (const auto& [option, value] : {std::pair{"--diff", &call.diff}, std::pair{"--proof", &call.proof}}) {
    if (value->empty()) continue;
    throw usage_error(std::string{option} + ": not for a problem with transfers, or with dimensions and no --at");
  }
}

// Plans an order for all values and keeps its offsets at these; `file` becomes the problem there. The bound is that of
// a plan made for these values.
plan_answer plan_at(const plan_call& call, model::problem_file& file) {
  const std::vector<bytes> values = values_of(file, call.at);
  model::problem_file unlimited = file;
  unlimited.problem.capacity.reset();
  const plan::plan order = plan_of(unlimited, call.options);
  model::problem_file there = problem_at(unlimited, values);
  plan::plan answer = plan_of(there, {.work = plan::effort::fast});
  answer.offsets = order.offsets;
  answer.arena_bytes = plan::evaluate(unlimited.problem, order, values, answer.offsets).value();
  answer.solver = order.solver;
  answer.work = order.work;
  answer.deadline_hit = order.deadline_hit;
  answer.status =
      answer.arena() == answer.lower_bound() && file.counts_all ? plan::status::optimal : plan::status::feasible;
  if (const auto broken = plan::verify(there.problem, answer)) expects(false, broken->rule);
  there.problem.capacity = file.problem.capacity;
  if (there.problem.capacity && answer.arena() > *there.problem.capacity) {
    answer.offsets.clear();
    answer.status = answer.lower_bound() > *there.problem.capacity ? plan::status::infeasible : plan::status::unknown;
    answer.reason = "the order found needs more than the capacity";
    answer.number = answer.arena();
  }
  file = std::move(there);
  return {.plan = std::move(answer), .most_bytes = order.arena()};
}

plan_answer answer_for(const plan_call& call, model::problem_file& file) {
  if (!call.at.empty()) return plan_at(call, file);
  if (call.keep.empty()) return {.plan = plan_of(file, call.options)};
  plan::former_places former = model::read_former_places(call.keep, file);
  former.tolerance = call.keep_within / 100;
  plan::options options = call.options;
  options.former = &former;
  return {.plan = plan_of(file, options)};
}

void require_good(const plan_call& call) {
  require_plan_format(call.out, call.prefix);
  // A new plan may take the place of the former one, which --keep names; that of --diff is what the next is held to.
  refuse_input_as_output(call.out, call.files);
  refuse_input_as_output(call.proof, call.files, "--proof");
  refuse_input_as_output(call.problem, call.files, "--problem");
  for (const std::string& former : {call.keep, call.diff}) {
    if (!former.empty()) refuse_input_as_output(call.problem, {former}, "--problem");
  }
  if (call.problem == "-") throw usage_error("--problem: is standard output, which has the plan");
  if (!call.problem.empty() && call.problem == call.out) throw usage_error("--problem: is the file of --out");
  if (!call.problem.empty() && call.problem == call.proof) throw usage_error("--problem: is the file of --proof");
  if (!(call.keep_within >= 0)) throw usage_error("--keep-within: is not a number");
  if (!call.diff.empty()) refuse_input_as_output(call.out, {call.diff});
}

int reorder(const plan_call& call) {
  const bool other = call.pipeline || call.files.size() > 1 || !call.keep.empty() || !call.diff.empty() ||
                     !call.shard.empty() || !call.cache.empty() || !call.at.empty() || !call.prefix.empty() ||
                     !call.header.empty() || !call.proof.empty() || !call.scratch.empty() || call.capacity ||
                     call.options.penalty_first || call.options.deadline_s || call.options.node_limit != 0 ||
                     call.memories.any() || !call.problem.empty();
  if (other) {
    throw usage_error(
        "--reorder: with one FILE, --dim, --rules, --effort, --threads, --budget, --recompute, --move and --out only");
  }
  refuse_input_as_output(call.out, call.files);
  std::signal(SIGINT, take_the_best);
  const int status = plan_reordered({.file = call.files.front(),
                                     .out = call.out,
                                     .rules = call.rules,
                                     .dims = call.dims,
                                     .work = call.options.work,
                                     .threads = call.options.threads,
                                     .stop = &interrupted,
                                     .budget = call.budget,
                                     .recompute = call.recompute,
                                     .move = call.move,
                                     .json = call.json,
                                     .quiet = call.quiet});
  std::signal(SIGINT, SIG_DFL);
  return status;
}

int plan_into_model(const plan_call& call) {
  if (call.pipeline || call.files.size() > 1 || !call.keep.empty() || !call.diff.empty() || !call.at.empty() ||
      !call.dims.empty() || !call.rules.empty() || call.capacity || call.options.penalty_first || call.memories.any() ||
      !call.problem.empty()) {
    throw usage_error(
        "--out FILE.tflite: with one FILE, --scratch, --header, --prefix, --effort, --work, --threads and --deadline "
        "only");
  }
  if (!call.prefix.empty() && call.header.empty())
    throw usage_error("--prefix: with --out FILE.tflite for --header only");
  if (!call.header.empty() && !ends_with(call.header, ".h")) {
    throw usage_error("--header: '" + call.header + "' does not end in .h");
  }
  refuse_input_as_output(call.out, call.files);
  refuse_input_as_output(call.header, call.files, "--header");
  return plan_micro({.file = call.files.front(),
                     .out = call.out,
                     .header = call.header,
                     .prefix = call.prefix,
                     .scratch = call.scratch,
                     .options = call.options,
                     .json = call.json,
                     .quiet = call.quiet});
}

int plan_all(const plan_call& call) {
  if (call.files.size() > 1 || call.pipeline || !call.keep.empty() || !call.diff.empty() || !call.at.empty() ||
      !call.dims.empty() || !call.prefix.empty() || !call.scratch.empty() || !call.header.empty() ||
      call.memories.any() || !call.problem.empty()) {
    throw usage_error(
        "a folder: with one DIR, --shard, --cache, --out, --capacity, --rules, --effort, --work, --threads, --deadline "
        "and "
        "--penalty-first only");
  }
  folder_call all{.folder = call.files.front(),
                  .out = call.out,
                  .cache = call.cache,
                  .rules = call.rules,
                  .capacity = call.capacity,
                  .effort = call.effort,
                  .options = call.options,
                  .json = call.json,
                  .quiet = call.quiet};
  if (!call.shard.empty()) parse_shard(call.shard, all);
  return plan_folder(all);
}

int plan_file(plan_call& call) {
  const auto start = std::chrono::steady_clock::now();
  call.options.work = call.effort == "fast"   ? plan::effort::fast
                      : call.effort == "best" ? plan::effort::best
                                              : plan::effort::normal;
  if (call.options.deadline_s && !(*call.options.deadline_s > 0 && std::isfinite(*call.options.deadline_s))) {
    throw usage_error("--deadline: not a number of seconds above zero");
  }
  if (call.reorder) return reorder(call);
  if (call.budget || call.recompute || !call.move.empty()) {
    throw usage_error("--budget, --recompute, --move: with --reorder only");
  }
  std::error_code absent;
  if (std::filesystem::is_directory(call.files.front(), absent)) return plan_all(call);
  if (!call.shard.empty()) throw usage_error("--shard: of a folder of problems only");
  if (!call.cache.empty()) throw usage_error("--cache: of a folder of problems only");
  if (ends_with(call.out, ".tflite")) return plan_into_model(call);
  if (!call.scratch.empty()) throw usage_error("--scratch: with --out FILE.tflite only");
  if (!call.header.empty()) throw usage_error("--header: with --out FILE.tflite only; else --out FILE.h");
  require_good(call);
  call.file = call.files.front();
  std::optional<progress_line> line{std::in_place, !call.json && !call.quiet};
  line->stage("reading " + file_name(call.file));
  const std::vector<model::hierarchy_memory> memories =
      call.memories.any() ? memories_named(call.memories) : std::vector<model::hierarchy_memory>{};
  model::problem_file file = read_problem_arguments(call.files, call.pipeline, call.dims,
                                                    memories.empty() ? model::reads::buffers : model::reads::uses);
  if (!call.rules.empty()) model::add_rules(file, call.rules);
  if (!memories.empty()) model::place_in(file, memories, !call.memories.no_copies);
  if (call.capacity && !file.problem.memories.empty()) {
    throw usage_error("--capacity: the problem has pools with capacities of their own");
  }
  if (call.capacity) file.problem.capacity = call.capacity;
  model::require_valid(file);
  if (!call.problem.empty()) model::write_file(call.problem, model::problem_json(file));
  require_fitting(call, file);
  call.options.stop = &interrupted;
  std::signal(SIGINT, take_the_best);
  line->stage("planning");
  call.options.watch = line->watch();
  plan_answer got = answer_for(call, file);
  got.elapsed_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::exception_ptr not_proved;  // told after the plan is written
  if (!call.proof.empty()) {
    line->stage("proving");
    try {
      got.proof_steps = write_proof(call.proof, file, got.plan, call.options);
    } catch (const model::input_error&) {
      not_proved = std::current_exception();
    }
  }
  std::signal(SIGINT, SIG_DFL);
  line->stage("writing");
  if (!got.plan.has_offsets()) {
    line.reset();
    return refuse(call, file, got.plan, got.elapsed_ms);
  }
  if (!call.diff.empty()) got.diff = diff_to(call.diff, file, facts_of(file, got.plan), call.growth);
  if (!call.out.empty()) write_out(call, file, got);
  const std::string text = call.json && call.out != "-" ? json_of(call, file, got) : "";
  line.reset();
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!call.json && !call.quiet && call.out != "-") print_table(call, file, got, interrupted);
  if (not_proved) std::rethrow_exception(not_proved);
  return got.diff && !got.diff->ok() ? answer_is_no : done;
}

void declare_reordering(CLI::App& app, plan_call& call) {
  app.add_flag(
      "--reorder", call.reorder,
      "Of a model or a ggml graph trace (- is standard input): an order of the nodes with a smaller arena, and\n"
      "the bound over all; --out FILE.onnx or FILE.tflite writes such a FILE in that order");
  add_bytes_option(app, "--budget", call.budget, "With --reorder: what the arena may take, as 524288 or 512KiB");
  app.add_flag("--recompute", call.recompute,
               "With --reorder: nodes may run again to keep the budget; without one, for the smallest arena found");
  app.add_option("--move", call.move,
                 "With --reorder: values may be copied to a slow memory and back for the same; RATE bytes while nodes\n"
                 "touch one (0.1: a link ten times slower), each copy LATENCY bytes' time more")
      ->check(not_empty)
      ->type_name("RATE[,LATENCY]");
}

void declare_search(CLI::App& app, plan_call& call) {
  // CLI11 itself wraps what is negative around, and takes no text at all for no option.
  const auto whole = [](const std::string& text) {
    const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    return digits && !text.empty() && text.size() < 20 ? std::string{} : "'" + text + "' is not a whole number";
  };
  const auto above_zero = [](const std::string& text) {
    return text.find_first_not_of('0') == std::string::npos ? "'" + text + "' is not above zero" : std::string{};
  };
  app.add_option("--effort", call.effort, "How long to search for a smaller arena")
      ->check(CLI::IsMember({"fast", "normal", "best"}))
      ->capture_default_str();
  app.add_option("--work", call.options.node_limit, "Search nodes instead of the effort's own number")
      ->check(whole)
      ->check(above_zero)
      ->type_name("N");
  app.add_option("--threads", call.options.threads,
                 "Threads of the search, 1 to 256, of which four are of use; they do not change the plan")
      ->check(CLI::Range(1, 256).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--deadline", call.options.deadline_s, "Seconds after which the best so far is taken")
      ->type_name("SECONDS");
  app.add_flag("--penalty-first", call.options.penalty_first,
               "Reuse penalties come before the arena, which may take all of the capacity");
}

void declare_former_plan(CLI::App& app, plan_call& call) {
  CLI::Option* const keep =
      app.add_option("--keep", call.keep,
                     "A former plan, JSON or CSV: buffers stay where it has them as far as the arena allows it")
          ->check(not_empty);
  app.add_option("--keep-within", call.keep_within,
                 "With --keep: buffers move only where that saves more than so many percent of the arena")
      ->needs(keep)
      ->check(CLI::Range(0.0, 100.0).description(""))
      ->type_name("PERCENT")
      ->capture_default_str();
  CLI::Option* const diff =
      app.add_option(
             "--diff", call.diff,
             "A former plan, JSON or CSV: exit status 1 where the arena grew beyond --growth, and which buffers\n"
             "did it")
          ->check(not_empty)
          ->type_name("OLD");
  app.add_option("--growth", call.growth, "With --diff: what the arena may grow by, as 64KiB or 5%")
      ->needs(diff)
      ->capture_default_str()
      ->type_name("BYTES|PERCENT%");
}

void declare_output(CLI::App& app, plan_call& call) {
  add_out_option(
      app, call.out,
      "Also write the plan: FILE.json, FILE.csv, FILE.h (C constants) or FILE.html (a page); - is JSON on\n"
      "standard output, in the table's place. Of a .tflite model also FILE.tflite: the model with the plan in\n"
      "it, for TensorFlow Lite for Microcontrollers");
  app.add_option(
         "--scratch", call.scratch,
         "With --out FILE.tflite: bytes that this operator's kernel takes while it runs, 0 for none, instead of\n"
         "what the reference kernel does; once for each buffer")
      ->type_name("[SUBGRAPH:]OPERATOR=BYTES")
      ->allow_extra_args(false);
  app.add_option("--proof", call.proof,
                 "Also search again below the bound and write FILE, a log of it that `berth verify --proof` checks")
      ->check(not_empty)
      ->type_name("FILE");
  app.add_option("--header", call.header,
                 "With --out FILE.tflite: a C header with the arena's size for the application")
      ->check(not_empty)
      ->type_name("FILE.h");
  app.add_option("--problem", call.problem,
                 "Also write the problem that is planned, as berth-problem/1, which has the same plan")
      ->check(not_empty)
      ->type_name("FILE.json");
  add_prefix_option(app, call.prefix);
}

}  // namespace

std::function<int()> declare_plan(CLI::App& app) {
  auto call = std::make_shared<plan_call>();
  app.add_option(
         "FILE", call->files,
         "Problem: CSV, berth-problem/1 JSON, ALLOC and FREE list, ggml graph trace, what XLA laid out, .tflite\n"
         "model (gzipped or not; - is standard input); or a model: FILE.onnx, builtin:NAME")
      ->required();
  app.add_option("--shard", call->shard,
                 "FILE is a folder: of the problems below it, this call plans an Nth, dealt by their content, into\n"
                 "OUT/shard-I-of-N.jsonl, a line a problem; called again, only what is not there yet")
      ->check(not_empty)
      ->type_name("I/N");
  app.add_option("--cache", call->cache,
                 "FILE is a folder: plans are taken from this store and kept there, as by Python's PlanCache;\n"
                 "a URL, as redis://HOST, needs the Python package")
      ->check(not_empty)
      ->type_name("DIR|URL");
  app.add_flag("--pipeline", call->pipeline, "The files are graphs that run one after the other, in one arena");
  declare_reordering(app, *call);
  app.add_flag("--json", call->json, "One JSON object on standard output");
  app.add_flag("--quiet", call->quiet, "Nothing on standard output, and no progress on a terminal");
  add_dim_option(app, call->dims);
  add_at_option(app, call->at,
                "Of a problem with dimensions: the offsets at these values instead of the order for all");
  add_bytes_option(app, "--capacity", call->capacity,
                   "That there are, as 1048576 or 1MiB: a plan that needs more is refused");
  std::vector<std::string> rules;
  for (const auto& r : rules::all()) rules.emplace_back(r.name);
  app.add_option("--rules", call->rules, "Placement rules of a chip, besides the problem's own (see berth devices)")
      ->check(CLI::IsMember(rules));
  add_memory_options(app, call->memories);
  declare_search(app, *call);
  declare_former_plan(app, *call);
  declare_output(app, *call);
  return [call] { return plan_file(*call); };
}

}  // namespace berth::tool
