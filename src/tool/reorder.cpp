#include "tool/reorder.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "berth/model/input_error.hpp"
#include "berth/schedule/order.hpp"
#include "berth/schedule/recompute.hpp"
#include "berth/schedule/steps.hpp"
#include "berth/trace/picture.hpp"
#include "model/file.hpp"
#include "model/files/readers.hpp"
#include "model/tflite_order.hpp"
#include "tool/model_argument.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/progress_line.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

struct read_graph {
  graph g;
  rules::placement rules = rules::host();
  std::vector<std::string> notes{};
  std::vector<schedule::node_pair> before{};
  std::vector<std::uint32_t> once{};
  bool counts_all = true;
  bool tflite = false;
  std::string file{};            // with --out of a model, its bytes
  model::shapes_graph shapes{};  // and what was read of them; its graph is `g`
};

bool writes_a_model(const reorder_call& call) {
  return call.out.ends_with(".onnx") || call.out.ends_with(".tflite");
}

model::shapes_graph shapes_of(const reorder_call& call, const std::string& path, const std::string& file, bool tflite) {
  if (tflite) return model::read_tflite_shapes(path, file, dimensions_of(call.dims));
  return read_onnx_graph(path, file, !writes_a_model(call), call.dims);
}

void refuse_other_models(const reorder_call& call, const char* kind) {
  if (writes_a_model(call) && !call.out.ends_with(kind)) {
    throw usage_error("--out: '" + call.out + "' is for an .onnx or .tflite FILE in another order, in its own format");
  }
}

read_graph read_bytes_of_model(const reorder_call& call, std::string file, bool tflite) {
  refuse_other_models(call, tflite ? ".tflite" : ".onnx");
  model::shapes_graph m = shapes_of(call, call.file, file, tflite);
  read_graph made{
      .g = m.graph, .notes = m.notes, .before = m.before, .once = m.once, .counts_all = m.counts_all, .tflite = tflite};
  if (tflite) made.rules = {.name = "tflite", .start_alignment = 16};
  if (!writes_a_model(call)) return made;
  if (!tflite) {
    made.notes.insert(made.notes.begin(), "ordered by its shapes, operator by operator, as the file has them");
  }
  made.file = std::move(file);
  made.shapes = std::move(m);
  return made;
}

read_graph read(const reorder_call& call) {
  const bool input = call.file == "-";
  std::string text;
  if (input || call.file.ends_with(".tflite")) text = model::read_file(call.file);
  if (model::is_tflite(text)) return read_bytes_of_model(call, std::move(text), true);
  if (call.file.starts_with("builtin:")) {
    refuse_other_models(call, "none");
    return {.g = read_model_graph(call.file, call.dims).graph};
  }
  // The first line of a trace is an object of JSON; no ONNX file begins so, whose first field is a number.
  const bool trace = text.find_first_not_of(" \t\r\n") == text.find('{') && text.find('{') != std::string::npos;
  if (input ? !trace : names_a_model(call.file)) {
    return read_bytes_of_model(call, input ? std::move(text) : model::read_file(call.file), false);
  }
  if (!call.dims.empty()) throw usage_error("--dim is for models");
  refuse_other_models(call, "none");
  if (!input && !call.file.ends_with(".jsonl") && !call.file.ends_with(".jsonl.gz")) {
    throw usage_error("--reorder: " + call.file +
                      " is neither an .onnx or .tflite model nor a ggml graph trace (.jsonl)");
  }
  model::ggml_trace trace_read = model::parse_ggml_trace(call.file, input ? text : model::read_file(call.file));
  return {.g = std::move(trace_read.graph), .rules = trace_read.rules, .once = std::move(trace_read.once)};
}

// Returns the arena's contents, from the first node that touches each to the last one.
std::vector<trace::rectangle> rectangles(const graph& g, const graph_plan& p, const char* memory) {
  const auto end = static_cast<std::int64_t>(g.nodes().size()) + 2;
  std::vector<trace::rectangle> of(g.values().size());
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    of[v] = {it.name, p.offset_of[v], it.size, 0, 1, memory};
    if (it.kind == value_kind::result) of[v].lower = it.producer.index + 1;
    if (it.output || it.kind == value_kind::state) of[v].upper = end;
  }
  // A taken-over operand is the result's from there on.
  std::vector<take_over> taken_over = p.in_place;
  std::ranges::stable_sort(taken_over, {}, &take_over::node);
  auto taken = taken_over.begin();
  std::vector<trace::rectangle> all;
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    const node& it = g.nodes()[n];
    for (const auto* values : {&it.inputs, &it.outputs}) {
      for (const value_id v : *values) {
        std::int64_t& upper = of[g[v].root.index].upper;
        upper = std::max<std::int64_t>(upper, std::int64_t{n} + 2);
      }
    }
    for (; taken != taken_over.end() && taken->node == n; ++taken) {
      of[g[it.inputs[taken->operand]].root.index].upper = std::int64_t{n} + 1;
    }
    if (it.workspace != 0) {
      all.push_back({"workspace of " + it.name, p.workspace_of[n], it.workspace, std::int64_t{n} + 1,
                     std::int64_t{n} + 2, memory});
    }
  }
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    if (graph_structure::in_arena(g.values()[v].kind) && of[v].size != 0 && of[v].upper > of[v].lower) {
      all.push_back(std::move(of[v]));
    }
  }
  return all;
}

bool beyond_order(const reorder_call& call) {
  return call.recompute || !call.move.empty();
}

// "RATE" or "RATE,LATENCY".
std::optional<schedule::transfer> transfer_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto number = [&](std::string_view part) {
    double n = 0;
    const auto [end, wrong] = std::from_chars(part.data(), part.data() + part.size(), n);
    if (wrong != std::errc{} || end != part.data() + part.size()) {
      throw usage_error("--move: '" + text + "' is not RATE or RATE,LATENCY, two numbers");
    }
    return n;
  };
  const std::size_t comma = text.find(',');
  schedule::transfer made{.bandwidth = number(std::string_view{text}.substr(0, comma))};
  if (comma != std::string::npos) made.latency = number(std::string_view{text}.substr(comma + 1));
  if (!(made.bandwidth > 0) || std::isinf(made.bandwidth)) throw usage_error("--move: the rate is not above 0");
  if (!(made.latency >= 0) || std::isinf(made.latency)) throw usage_error("--move: the latency is not at least 0");
  return made;
}

// The figures shown, whether nodes run again or not.
struct reordered {
  graph_plan given_plan;
  graph_plan plan;
  schedule::rewritten after;
  std::vector<std::uint32_t> steps;
  bytes bound = 0;
  std::string bound_name;
  std::string holder;         // with --recompute: what needs as much as the bound
  double extra_percent = 0;   // of the cost of one run of each node
  double waited_percent = 0;  // the part of it that is waiting for copies
  bytes copied = 0, slow_arena = 0;
  std::uint64_t states = 0;
  bytes given_peak = 0, peak = 0;
  bool within = true;
  bool verified = false;
  std::vector<std::string> notes{};
  std::vector<std::pair<bytes, double>> front{};  // with --recompute alone: arenas, and what they cost in percent

  bool counts_all = true;

  [[nodiscard]] bool optimal() const { return counts_all && plan.arena() == bound; }
};

reordered in_order(const graph& g, const reorder_call& call, const schedule::options& o) {
  graph_fault why;
  auto found = schedule::find_order(g, o, &why);
  if (!found) throw model::input_error(call.file, why.text.empty() ? found.error().what : why.text);
  return {.given_plan = std::move(found->given_plan),
          .plan = std::move(found->plan),
          .after = std::move(found->after),
          .steps = std::move(found->steps),
          .bound = found->lower_bound,
          .bound_name = "over all orders",
          .holder = "",
          .states = found->states,
          .given_peak = found->given_peak,
          .peak = found->peak,
          .within = true};
}

reordered run_again(const read_graph& input, const std::optional<schedule::transfer>& move, const reorder_call& call,
                    const schedule::options& o) {
  const graph& g = input.g;
  reordered made = in_order(g, call, o);
  const bool enough = call.budget && made.plan.arena() <= *call.budget;
  const schedule::recompute_options how{.order = o, .again = call.recompute, .once = input.once, .move = move};
  graph_fault why;
  std::optional<schedule::recomputed> found;
  if (call.budget) {
    auto one = schedule::recompute_within(g, *call.budget, how, &why);
    if (!one) throw model::input_error(call.file, why.text.empty() ? one.error().what : why.text);
    found = std::move(*one);
  } else {
    auto front = schedule::recompute_front(g, 8, how, &why);
    if (!front) throw model::input_error(call.file, why.text.empty() ? front.error().what : why.text);
    for (const schedule::recomputed& r : *front) {
      made.front.emplace_back(r.plan.arena(), r.given_cost > 0 ? 100 * r.extra_cost / r.given_cost : 0);
    }
    found = std::move(front->back());
  }
  made.bound = found->bound;
  made.bound_name = move ? "whatever runs again or moves" : "whatever runs again";
  made.holder = found->holder < g.nodes().size() ? "node '" + g.nodes()[found->holder].name + "'"
                                                 : "what is there at the start or in the end";
  if (enough) return made;
  made.plan = std::move(found->plan);
  made.after = std::move(found->after);
  made.steps = std::move(found->steps);
  made.extra_percent = found->given_cost > 0 ? 100 * found->extra_cost / found->given_cost : 0;
  made.waited_percent = found->given_cost > 0 ? 100 * found->waited / found->given_cost : 0;
  made.copied = found->copied;
  made.slow_arena = found->slow.arena();
  made.peak = made.plan.lower_bound();
  return made;
}

// Returns the file in the order found.
std::string in_new_order(const reorder_call& call, const read_graph& input, const reordered& found) {
  if (input.tflite) return model::tflite_in_order(call.file, input.file, found.steps);
  return model::onnx_in_order(call.file, input.file, input.shapes, found.steps);
}

// Writes the file in the order found. Returns false, and writes nothing, if the file would not be read as planned.
bool write_model(const reorder_call& call, const read_graph& input, const reordered& found,
                 const rules::placement& rules) {
  const std::string file = in_new_order(call, input, found);
  const model::shapes_graph again = shapes_of(call, call.out, file, input.tflite);
  const auto sizes = [](const graph& g, const node& n) {
    std::vector<bytes> all;
    for (const auto* values : {&n.inputs, &n.outputs}) {
      for (const value_id v : *values) all.push_back(g[v].size);
    }
    return all;
  };
  const auto same = [&](const node& a, const node& b) {
    return a.op == b.op && sizes(again.graph, a) == sizes(found.after.graph, b);
  };
  if (!std::ranges::equal(again.graph.nodes(), found.after.graph.nodes(), same)) return false;
  const auto plan = plan_graph(again.graph, {.search = {.threads = call.threads}, .rules = rules});
  if (!plan || plan->arena() > found.given_plan.arena()) return false;
  if (call.budget && found.within && plan->arena() > *call.budget) return false;
  model::write_file(call.out, file);
  return true;
}

std::string page(const reorder_call& call, const graph& given, const reordered& found) {
  trace::picture picture;
  picture.title = file_name(call.file) + ", before and after";
  picture.facts = {{"arena before", human_exactly(found.given_plan.arena())},
                   {"arena", human_exactly(found.plan.arena())},
                   {"needed at least, " + found.bound_name, human_exactly(found.bound)},
                   {"optimal", found.optimal() ? "yes, proved" : "not proved"}};
  picture.lower_bound = found.bound;
  picture.lower_bound_name = "bound " + found.bound_name;
  picture.tick = "step";
  picture.rectangles = rectangles(given, found.given_plan, "given order");
  for (auto& r : rectangles(found.after.graph, found.plan, "found order")) picture.rectangles.push_back(std::move(r));
  return trace::to_html(picture);
}

std::size_t copies(const graph& g, const reordered& found) {
  return static_cast<std::size_t>(std::ranges::count_if(
      found.steps, [&](std::uint32_t s) { return schedule::meaning_of(g, s).kind != schedule::step_kind::node; }));
}

nlohmann::ordered_json to_json(const reorder_call& call, const graph& given, const reordered& found,
                               double elapsed_ms) {
  nlohmann::ordered_json order = nlohmann::ordered_json::array();
  for (const node& n : found.after.graph.nodes()) order.push_back(n.name);
  nlohmann::ordered_json buffers = nlohmann::ordered_json::array();
  for (const trace::rectangle& r : rectangles(found.after.graph, found.plan, "")) {
    buffers.push_back({{"id", r.name}, {"offset", r.offset}, {"size", r.size}, {"lower", r.lower}, {"upper", r.upper}});
  }
  nlohmann::ordered_json made{{"format", "berth-order/1"},
                              {"model", call.file},
                              {"nodes", given.nodes().size()},
                              {"changed", found.plan.arena() < found.given_plan.arena()},
                              {"arena_before", found.given_plan.arena()},
                              {"arena_bytes", found.plan.arena()},
                              {"peak_before", found.given_peak},
                              {"peak_bytes", found.peak},
                              {"lower_bound", found.bound},
                              {"optimal", found.optimal()},
                              {"verified", found.verified},
                              {"states", found.states},
                              {"elapsed_ms", elapsed_ms}};
  if (call.budget) {
    made["budget"] = *call.budget;
    made["within_budget"] = found.within;
  }
  if (beyond_order(call)) {
    made["runs_again"] = found.steps.size() - copies(given, found) - given.nodes().size();
    made["extra_percent"] = found.extra_percent;
    made["bound_held_by"] = found.holder;
    for (const auto& [arena, percent] : found.front) {
      made["front"].push_back({{"arena_bytes", arena}, {"extra_percent", percent}});
    }
  }
  if (!call.move.empty()) {
    made["copies"] = copies(given, found);
    made["moved_bytes"] = found.copied;
    made["waited_percent"] = found.waited_percent;
    made["slow_arena_bytes"] = found.slow_arena;
  }
  if (!found.notes.empty()) made["notes"] = found.notes;
  made["steps"] = found.steps;
  made["order"] = std::move(order);
  made["buffers"] = std::move(buffers);
  return made;
}

void print_table(const reorder_call& call, const graph& given, const reordered& found, double elapsed_ms) {
  std::printf("%s\n", printable(call.file).c_str());
  std::printf("  nodes         %zu\n", given.nodes().size());
  std::printf("  arena before  %s\n", human_exactly(found.given_plan.arena()).c_str());
  std::printf("  arena         %s%s\n", human_exactly(found.plan.arena()).c_str(),
              found.plan.arena() < found.given_plan.arena() ? "" : "; the given order stays");
  std::printf("  lower bound   %s, %s\n", human_exactly(found.bound).c_str(), found.bound_name.c_str());
  if (found.optimal()) {
    std::printf("  optimal       yes, proved\n");
  } else if (!found.counts_all) {
    std::printf("  optimal       not proved: a note names memory that is not counted\n");
  } else {
    const auto bound = static_cast<double>(std::max<bytes>(found.bound, 1));
    std::printf("  optimal       not proved: at most %.3f %% above\n",
                100 * (static_cast<double>(found.plan.arena()) / bound - 1));
  }
  if (call.recompute) {
    std::printf("  run again     %zu nodes, %.2f %% more bytes read and written\n",
                found.steps.size() - copies(given, found) - given.nodes().size(),
                found.extra_percent - found.waited_percent);
  }
  if (!call.move.empty()) {
    std::printf("  copied        %s in %zu copies, %.2f %% of the time waited for; %s of the slow memory\n",
                human_exactly(found.copied).c_str(), copies(given, found), found.waited_percent,
                human_exactly(found.slow_arena).c_str());
  }
  for (const auto& [arena, percent] : found.front) {
    std::printf("  or            %s for %.2f %%\n", human_exactly(arena).c_str(), percent);
  }
  if (!found.within) {
    std::printf("  budget        %s, not kept; %s, held by %s\n", human_exactly(*call.budget).c_str(),
                *call.budget < found.bound ? "no steps keep it" : "none were found that keep it",
                found.holder.empty() ? "some node in every order" : printable(found.holder).c_str());
  }
  std::printf("  verified      %s\n", found.verified ? "yes" : "NO: please report this");
  std::printf("  found in      %.1f ms, %" PRIu64 " states\n", elapsed_ms, found.states);
  if (!call.out.empty()) {
    const bool unwritten = writes_a_model(call) && !found.verified;
    std::printf("  %-14s%s%s\n", unwritten ? "not written" : "written to", printable(call.out).c_str(),
                !writes_a_model(call) || unwritten ? "" : ": the main graph's nodes in this order");
  }
  for (const std::string& note : found.notes) std::printf("  note          %s\n", printable(note).c_str());
}

}  // namespace

int plan_reordered(const reorder_call& call) {
  const bool html = call.out.ends_with(".html");
  const bool model_out = writes_a_model(call);
  if (!call.out.empty() && call.out != "-" && !html && !model_out && !call.out.ends_with(".json")) {
    throw usage_error("--out: with --reorder '" + call.out + "' must end in .json, .html, .onnx or .tflite");
  }
  if (model_out && !call.move.empty()) throw usage_error("--out: no model is written with values that move");
  const auto move = transfer_of(call.move);
  const auto start = std::chrono::steady_clock::now();
  std::optional<progress_line> line{std::in_place, !call.json && !call.quiet};
  line->stage("reading " + file_name(call.file));
  const read_graph input = read(call);
  schedule::options options{.work = call.work,
                            .placing = {.threads = call.threads, .stop = call.stop},
                            .rules = input.rules,
                            .before = input.before,
                            .stop = call.stop};
  if (!call.rules.empty()) {
    const auto both = rules::strictest(input.rules, *rules::find(call.rules));
    if (!both) throw usage_error("--rules: the alignments of both exceed 64 bits");
    options.rules = both;
  }
  line->stage("ordering");
  reordered found = beyond_order(call) ? run_again(input, move, call, options) : in_order(input.g, call, options);
  found.notes = input.notes;
  found.counts_all = input.counts_all;
  found.within = !call.budget || found.plan.arena() <= *call.budget;
  found.verified = !schedule::verify_steps(input.g, found.steps, {}, input.before, input.once) &&
                   verify_plan(found.after.graph, found.plan, *options.rules).ok();
  const double elapsed = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  line->stage("writing");
  const bool to_output = call.out == "-";
  if (html) model::write_file(call.out, page(call, input.g, found));
  if (model_out) found.verified = found.verified && write_model(call, input, found, *options.rules);
  if (!call.out.empty() && !html && !model_out && !to_output) {
    model::write_file(
        call.out,
        to_json(call, input.g, found, elapsed).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
  }
  line.reset();
  if (call.json || to_output)
    print_json(to_json(call, input.g, found, elapsed));
  else if (!call.quiet)
    print_table(call, input.g, found, elapsed);
  return found.within && found.verified ? done : answer_is_no;
}

}  // namespace berth::tool
