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
#include "berth/model/moves_file.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/model/symbolic_file.hpp"
#include "berth/plan/moves.hpp"
#include "berth/plan/replan.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "model/file.hpp"
#include "tool/dimensions.hpp"
#include "tool/problem_argument.hpp"
#include "tool/progress_line.hpp"
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
  std::vector<std::string> at;    // name=N, of a problem with dimensions
  std::optional<bytes> capacity;
  plan::options options;
  bool pipeline = false;
  bool json = false;
  bool quiet = false;
};

// What came of a call.
struct outcome {
  plan::replanned found;
  std::optional<plan::symbolic_plan> order;  // for all values of the dimensions; `found` is then at the largest
  std::optional<bytes> most_bytes;           // --at: the arena at the largest values
  std::optional<plan::moves_plan> moves;     // with traffic; `found` is then of its stays
  double elapsed_ms = 0;
};

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
  std::string text{answer.reason};
  if (text.empty())
    text = answer.status == plan::status::infeasible ? "no plan fits the capacity" : "no plan was found";
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
                             {"arena_bytes", nullptr},
                             {"solver", nullptr},
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

std::string json_of(const plan_call& call, const model::problem_file& file, const outcome& got) {
  if (got.moves) return model::moves_json(file, *got.moves, got.elapsed_ms);
  if (got.order) return model::symbolic_plan_json(file, *got.order, got.elapsed_ms);
  std::string text = model::plan_json(file, got.found.layout, got.elapsed_ms);
  if (!call.keep.empty()) {
    text.insert(1, "\"moved\":" + std::to_string(got.found.moved) +
                       ",\"moved_bytes\":" + std::to_string(got.found.moved_bytes) +
                       ",\"moved_fewest\":" + (got.found.fewest ? "true," : "false,"));
  }
  if (got.most_bytes) {
    std::string at;
    for (const std::string& each : call.at) {
      const std::size_t equals = each.find('=');
      at += (at.empty() ? "\"" : ",\"") + each.substr(0, equals) +
            "\":" + std::to_string(std::stoull(each.substr(equals + 1)));  // 007 is no JSON
    }
    text.insert(1, "\"at\":{" + at + "},\"most_bytes\":" + std::to_string(*got.most_bytes) + ",");
  }
  return text;
}

void write_out(const plan_call& call, const model::problem_file& file, const outcome& got) {
  if (call.out.empty()) return;
  if (ends_with(call.out, ".json")) {
    model::write_file(call.out, json_of(call, file, got));
  } else if (ends_with(call.out, ".csv")) {
    model::write_file(call.out, model::plan_csv(file, got.found.layout));
  } else if (ends_with(call.out, ".html")) {
    trace::picture picture =
        picture_of(facts_of(got.moves ? model::file_of_stays(file, *got.moves) : file, got.found.layout));
    picture.title = std::filesystem::path{call.file}.filename().string();
    model::write_file(call.out, trace::to_html(picture));
  } else {
    model::write_file(call.out, got.order ? model::symbolic_plan_header(file, *got.order)
                                          : model::plan_header(file, got.found.layout));
  }
}

std::string text_of_dimensions(const plan::symbolic_sizes& sizes) {
  std::string text;
  for (const plan::dimension& d : sizes.dimensions) {
    text += (text.empty() ? "" : ", ") + d.name + " " + std::to_string(d.least) + " to " + std::to_string(d.most);
  }
  return text;
}

void print_moves(const plan::problem& p, const plan::moves_plan& answer) {
  std::printf("  access time   %.6g%s\n", answer.access,
              answer.moves.empty() ? ""
              : answer.unmoved     ? (", without moves " + nlohmann::json(*answer.unmoved).dump()).c_str()
                                   : ", without moves there is no plan");
  std::printf("  stall         %.6g; access and stall are at least %.6g\n", answer.stall, answer.bound);
  std::printf("  copied        %llu bytes\n", static_cast<unsigned long long>(answer.moved));
  for (const plan::move& m : answer.moves) {
    const auto pool = [&](plan::index stay) { return p.memories[answer.stays[stay].memory].name.c_str(); };
    std::printf("    %-12s %s -> %s, ticks %lld to %lld, time %.6g to %.6g\n", p.buffers[m.buffer].name.c_str(),
                pool(m.from), pool(m.to), static_cast<long long>(m.during.lower),
                static_cast<long long>(m.during.upper), m.begin, m.done);
  }
}

void print_table(const plan_call& call, const model::problem_file& file, const outcome& got) {
  const plan::problem& p = file.problem;
  const plan::plan& answer = got.found.layout;
  bytes total = 0;
  for (plan::index i = 0; i < p.buffers.size(); ++i) total += p.footprint(i);
  const double over = answer.lower_bound() == 0 ? 0
                                                : 100.0 * static_cast<double>(answer.arena() - answer.lower_bound()) /
                                                      static_cast<double>(answer.lower_bound());
  const auto number = [](bytes n) { return static_cast<unsigned long long>(n); };
  std::printf("%s\n", call.file.c_str());
  std::printf("  buffers       %zu\n", p.buffers.size());
  if (got.order) {
    std::printf("  dimensions    %s; what follows is at the largest values\n",
                text_of_dimensions(*file.symbolic).c_str());
    std::printf("  supports      %zu\n", got.order->supports.size());
  }
  std::printf("  without reuse %llu bytes\n", number(total));
  std::printf("  arena         %llu bytes", number(answer.arena()));
  std::printf(got.most_bytes ? "; at the largest values %llu\n" : "\n", number(got.most_bytes.value_or(0)));
  std::printf("  lower bound   %llu bytes\n", number(answer.lower_bound()));
  if (answer.optimal()) {
    std::printf("  optimal       yes, proved\n");
  } else {
    std::printf("  optimal       not proved: at most %.3f %% above\n", over);
  }
  if (!p.reuse_penalties.empty()) std::printf("  reuse penalty %g\n", answer.reuse_penalty);
  if (got.moves) print_moves(p, *got.moves);
  if (!call.keep.empty()) {
    std::printf("  moved         %zu buffers, %llu bytes%s\n", got.found.moved, number(got.found.moved_bytes),
                got.found.fewest ? "; fewer cannot, proved" : "");
  }
  std::printf("  found by      %s, %llu search nodes, %.1f ms%s\n", std::string{answer.solver}.c_str(),
              number(answer.work), got.elapsed_ms,
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

// Where an order needs more than there is the answer is no: no offsets.
void hold_to_capacity(plan::plan& answer, const std::optional<bytes>& capacity) {
  if (!capacity || answer.arena() <= *capacity) return;
  answer.offsets.clear();
  answer.status = answer.lower_bound() > *capacity ? plan::status::infeasible : plan::status::unknown;
  answer.reason = "the order found needs more than the capacity";
  answer.number = answer.arena();
}

// What an order gives at one value a dimension; the bound is that of a plan made for these values.
plan::plan plan_at(const model::problem_file& file, const plan::symbolic_plan& order, const std::vector<bytes>& values,
                   const plan::problem& there) {
  plan::plan answer = order.most;
  answer.arena_bytes = plan::evaluate(file.problem, *file.symbolic, order, values, answer.offsets).value();
  plan::problem unlimited = there;
  unlimited.capacity.reset();
  const plan::plan own = plan::solve(unlimited, {.work = plan::effort::fast}).value();
  answer.lower_bound_bytes = own.lower_bound();
  answer.proof = own.proof;
  answer.status = answer.arena() == own.lower_bound() ? plan::status::optimal : plan::status::feasible;
  if (const auto broken = plan::verify(unlimited, answer)) expects(false, broken->rule);
  return answer;
}

outcome plan_symbolic(const plan_call& call, model::problem_file& file) {
  if (!call.keep.empty()) throw usage_error("--keep: " + file.path + " has dimensions: an order is planned anew");
  if (ends_with(call.out, ".csv") && call.at.empty()) {
    throw usage_error("--out: CSV has no place for the order of a problem with dimensions; use .json or --at");
  }
  const std::vector<bytes> values = call.at.empty() ? std::vector<bytes>{} : values_of(file, call.at);
  auto order = plan::solve_symbolic(file.problem, *file.symbolic, call.options);
  if (!order) throw model::input_error(call.file, order.error().what);
  outcome got;
  if (call.at.empty()) {
    hold_to_capacity(order->most, file.problem.capacity);
    got.found.layout = order->most;
    got.order = std::move(*order);
  } else {
    model::problem_file there = problem_at(file, values);
    got.found.layout = plan_at(file, *order, values, there.problem);
    hold_to_capacity(got.found.layout, there.problem.capacity);
    got.most_bytes = order->most.arena();
    file = std::move(there);
  }
  return got;
}

outcome plan_moves(const plan_call& call, const model::problem_file& file) {
  if (!call.keep.empty()) throw usage_error("--keep: not for a problem with transfers, steps or uses");
  if (ends_with(call.out, ".csv") || ends_with(call.out, ".h")) {
    throw usage_error("--out: a plan with moves is written to .json or .html");
  }
  auto answer = plan::solve_moves(file.problem, *file.traffic, call.options);
  if (!answer) throw model::input_error(call.file, answer.error().what);
  outcome got;
  got.found.layout = answer->layout;
  got.moves = std::move(*answer);
  return got;
}

int plan_file(plan_call& call) {
  const auto start = std::chrono::steady_clock::now();
  if (!call.out.empty() && !ends_with(call.out, ".json") && !ends_with(call.out, ".csv") &&
      !ends_with(call.out, ".h") && !ends_with(call.out, ".html")) {
    throw usage_error("--out: '" + call.out + "' ends neither in .json nor in .csv nor in .h nor in .html");
  }
  if (call.options.deadline_s && !(*call.options.deadline_s > 0 && std::isfinite(*call.options.deadline_s))) {
    throw usage_error("--deadline: not a number of seconds above zero");
  }
  call.options.work = call.effort == "fast"   ? plan::effort::fast
                      : call.effort == "best" ? plan::effort::best
                                              : plan::effort::normal;
  call.file = call.files.front();
  model::problem_file file = read_problem_arguments(call.files, call.pipeline, call.dims);
  if (!call.rules.empty()) apply_rules(file, call.rules);
  if (call.capacity && !file.problem.memories.empty()) {
    throw usage_error("--capacity: the problem has pools with capacities of their own");
  }
  if (call.capacity) file.problem.capacity = call.capacity;
  model::require_valid(file);
  if (!call.at.empty() && !file.symbolic) throw usage_error("--at: " + call.file + " has no dimensions");
  call.options.stop = &interrupted;
  std::signal(SIGINT, take_the_best);
  outcome got;
  {
    progress_line line{!call.json && !call.quiet};
    call.options.watch = line.watch();
    got = file.symbolic  ? plan_symbolic(call, file)
          : file.traffic ? plan_moves(call, file)
                         : outcome{.found = answer_for(call, file)};
  }
  std::signal(SIGINT, SIG_DFL);
  got.elapsed_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!got.found.layout.has_offsets()) return refuse(call, file, got.found.layout, got.elapsed_ms);
  write_out(call, file, got);
  if (call.json) {
    const std::string text = json_of(call, file, got);
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else if (!call.quiet) {
    print_table(call, file, got);
  }
  return done;
}

}  // namespace

std::function<int()> declare_plan(CLI::App& app) {
  // CLI11 itself wraps what is negative around, and takes no text at all for no option.
  const auto whole = [](const std::string& text) {
    const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    return digits && !text.empty() && text.size() < 20 ? std::string{} : "'" + text + "' is not a whole number";
  };
  const auto above_zero = [](const std::string& text) {
    return text.find_first_not_of('0') == std::string::npos ? "'" + text + "' is not above zero" : std::string{};
  };
  auto call = std::make_shared<plan_call>();
  app.add_option(
         "FILE", call->files,
         "Problem: CSV, berth-problem/1 JSON, ALLOC and FREE list, ggml graph trace, .tflite model (gzipped or\n"
         "not); or a model that runs here: FILE.onnx, builtin:NAME")
      ->required();
  app.add_flag("--pipeline", call->pipeline, "The files are graphs that run one after the other, in one arena");
  app.add_flag("--json", call->json, "One JSON object on standard output");
  app.add_flag("--quiet", call->quiet, "Nothing on standard output, and no progress on a terminal");
  add_dim_option(app, call->dims);
  add_at_option(app, call->at,
                "Of a problem with dimensions: the offsets at these values instead of the order for all");
  app.add_option("--capacity", call->capacity, "That there are: a plan that needs more is refused")
      ->check(whole)
      ->type_name("BYTES");
  app.add_option("--rules", call->rules, "Placement rules of a chip, by name");
  app.add_option("--effort", call->effort, "How long to search for a smaller arena")
      ->check(CLI::IsMember({"fast", "normal", "best"}));
  app.add_option("--work", call->options.node_limit, "Search nodes instead of the effort's own number")
      ->check(whole)
      ->check(above_zero)
      ->type_name("N");
  app.add_option("--threads", call->options.threads,
                 "Threads of the search, of which four are of use; they do not change the plan")
      ->check(CLI::Range(1, 256));
  app.add_option("--deadline", call->options.deadline_s, "Seconds after which the best so far is taken")
      ->type_name("SECONDS");
  app.add_option("--keep", call->keep,
                 "A former plan, JSON or CSV: buffers stay where it has them as far as the arena allows it");
  app.add_option("--out", call->out,
                 "Also write the plan: FILE.json, FILE.csv, FILE.h (C constants) or FILE.html (a page)");
  return [call] { return plan_file(*call); };
}

}  // namespace berth::tool
