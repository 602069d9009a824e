// berth op: one operator on made-up data, judged and timed.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "berth/op/check.hpp"
#include "op/heap_meter.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/units.hpp"
#include "tool/value_of.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

namespace {

struct op_call {
  std::string name, type = "f32";
  std::optional<std::string> shapes, range;  // given empty, they are wrong
  std::string device = "host";
  std::optional<double> tolerance;
  std::uint32_t seed = 1, warm_up = 3, runs = 10;
  bool edges = false, strided = false, list = false, json = false, csv = false;
};

std::string shapes_text(const std::vector<tensor_type>& types) {
  std::string text;
  for (const tensor_type& t : types) {
    std::string one;
    for (const std::int64_t d : t.shape) one += (one.empty() ? "" : "x") + std::to_string(d);
    text += (text.empty() ? "" : ", ") + (one.empty() ? "scalar" : one) + " " + op::name(t.type);
  }
  return text;
}

// "add" finds Add: names are told apart by their letters alone.
std::string table_name(const std::string& name) {
  const auto same = [](std::string_view a, std::string_view b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](unsigned char x, unsigned char y) {
             return std::tolower(x) == std::tolower(y);
           });
  };
  for (const op::definition* d : op::all()) {
    if (same(d->name, name)) return d->name;
  }
  throw usage_error("no operator is called '" + name + "'; berth op --list names them");
}

// The reference is computed in f64, with indices beside it: some 64 bytes an element (measured with Add).
void require_room(const std::vector<op::shape>& shapes) {
  const double room = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  double elements = 0;
  for (const op::shape& one : shapes) {
    double product = 1;
    for (const std::int64_t d : one) product *= static_cast<double>(d);
    elements += product;
  }
  if (elements * 64 > room) throw usage_error("--shape: to check so many elements takes more memory than there is");
}

op::check_options options_of(const op_call& c) {
  op::check_options o;
  o.type = op::element_named(c.type);
  if (o.type == element::other) throw usage_error("--dtype: no element type is called '" + c.type + "'");
  if (c.shapes) o.shapes = op::shapes_of(*c.shapes);
  require_room(o.shapes);
  if (c.range) {
    char rest = 0;
    if (std::sscanf(c.range->c_str(), "%lf:%lf%c", &o.low, &o.high, &rest) != 2 || !(o.low <= o.high) ||
        !std::isfinite(o.low) || !std::isfinite(o.high)) {
      throw usage_error("--range: '" + *c.range + "' is not LOW:HIGH, two finite numbers in order");
    }
  }
  o.seed = c.seed;
  o.edges = c.edges;
  o.strided = c.strided;
  o.warm_up = c.warm_up;
  o.runs = c.runs;
  if (c.tolerance && !(*c.tolerance >= 0)) throw usage_error("--tolerance: not a number from 0 on");
  o.tolerance = c.tolerance;
  o.on = of_device(c.device, device::open(c.device));
  if (op::heap_calls_so_far().counted) o.heap_calls = [] { return op::heap_calls_so_far().heap; };
  return o;
}

void print(const std::string& name, const op::check_result& r) {
  const auto row = [](const char* what, const std::string& value) { std::printf("  %-22s %s\n", what, value.c_str()); };
  std::printf("%s: %s\n", name.c_str(), r.ok ? "ok" : r.why.c_str());
  row("inputs", shapes_text(r.inputs));
  row("results", shapes_text(r.outputs));
  row("device", r.device);
  row("kernel", r.kernel);
  row("judged by", r.reference);
  row("largest difference", formatted("%.3g (allowed: %.3g), in result ", r.largest_difference, r.tolerance) +
                                std::to_string(r.worst_output) + " at " + std::to_string(r.worst_element));
  row("mean difference", formatted("%.3g", r.mean_difference));
  std::string parts;
  for (const op::workspace_part& p : r.parts) parts += (parts.empty() ? ": " : ", ") + p.what;
  row("workspace", human(r.workspace) + parts);
  row("memory", human(r.memory) + ", operands and workspace");
  row("time",
      formatted("%.1f us median, %.1f mean (%.1f to %.1f)", r.median_us, r.mean_us, r.fastest_us, r.slowest_us));
  const auto heap = [](std::int64_t n) { return n < 0 ? std::string{"not counted"} : std::to_string(n); };
  row("heap calls", heap(r.heap_calls_first) + " in phase one, " + heap(r.heap_calls_second) + " in phase two");
}

nlohmann::ordered_json json_of(const std::string& name, const op::check_result& r) {
  nlohmann::ordered_json j;
  const auto types = [](const std::vector<tensor_type>& all) {
    auto list = nlohmann::ordered_json::array();
    for (const tensor_type& t : all) list.push_back({{"shape", t.shape}, {"type", op::name(t.type)}});
    return list;
  };
  j["operator"] = name;
  j["ok"] = r.ok;
  j["why"] = r.why;
  j["inputs"] = types(r.inputs);
  j["outputs"] = types(r.outputs);
  j["device"] = r.device;
  j["kernel"] = r.kernel;
  j["reference"] = r.reference;
  j["largest_difference"] = r.largest_difference;
  j["mean_difference"] = r.mean_difference;
  j["tolerance"] = r.tolerance;
  j["worst"] = {{"output", r.worst_output}, {"element", r.worst_element}};
  j["workspace_bytes"] = r.workspace;
  j["workspace_parts"] = nlohmann::json::array();
  for (const auto& part : r.parts) j["workspace_parts"].push_back({{"what", part.what}, {"bytes", part.size}});
  j["memory_bytes"] = r.memory;
  j["us"] = {{"median", r.median_us}, {"mean", r.mean_us}, {"fastest", r.fastest_us}, {"slowest", r.slowest_us}};
  const auto counted = [](std::int64_t n) { return n < 0 ? nlohmann::ordered_json{} : nlohmann::ordered_json(n); };
  j["heap_calls"] = {{"first_phase", counted(r.heap_calls_first)}, {"second_phase", counted(r.heap_calls_second)}};
  return j;
}

// A line of names and a line of figures.
void print_csv(const std::string& name, const op_call& c, const op::check_result& r) {
  std::printf(
      "operator,device,inputs,results,ok,kernel,largest_difference,mean_difference,tolerance,workspace_bytes,"
      "memory_bytes,warmup,runs,median_us,mean_us,fastest_us,slowest_us\n");
  std::printf("%s,%s,\"%s\",\"%s\",%s,\"%s\",%.9g,%.9g,%.9g,", name.c_str(), r.device.c_str(),
              shapes_text(r.inputs).c_str(), shapes_text(r.outputs).c_str(), r.ok ? "true" : "false", r.kernel.c_str(),
              r.largest_difference, r.mean_difference, r.tolerance);
  std::printf("%" PRIu64 ",%" PRIu64 ",%u,%u,%.3f,%.3f,%.3f,%.3f\n", r.workspace, r.memory, c.warm_up, c.runs,
              r.median_us, r.mean_us, r.fastest_us, r.slowest_us);
}

int list(bool json) {
  auto names = nlohmann::ordered_json::array();
  for (const op::definition* d : op::all()) {
    if (!json) std::printf("%-28s %s\n", d->name, d->example);
    names.push_back({{"operator", d->name}, {"example", d->example}});
  }
  if (json) print_json(nlohmann::ordered_json{{"operators", names}});
  return done;
}

int run(const op_call& c) {
  if (c.list) return list(c.json);
  if (c.name.empty()) throw usage_error("op: which operator? berth op --list names them");
  const std::string name = table_name(c.name);
  try {
    op::check_options o = options_of(c);
    // One shape for an operator of several inputs: all of them have it.
    if (o.shapes.size() == 1) {
      const auto example = op::shapes_of(op::find(name)->example);
      const bool alike = std::adjacent_find(example.begin(), example.end(), std::not_equal_to<>{}) == example.end();
      while (alike && o.shapes.size() < example.size()) o.shapes.push_back(o.shapes.front());
    }
    const op::check_result r = op::check(name, o);
    c.json ? print_json(json_of(name, r)) : c.csv ? print_csv(name, c, r) : print(name, r);
    return r.ok ? done : answer_is_no;
  } catch (const op::refusal& why) {
    throw usage_error(name + ": " + why.what());
  }
}

}  // namespace

std::function<int()> declare_op(CLI::App& app) {
  auto c = std::make_shared<op_call>();
  app.add_option("NAME", c->name, "The operator, as ONNX calls it, in letters of any size");
  app.add_option("--shape", c->shapes, "Of each input: 64x32,32 (default: the table's example)");
  app.add_option("--dtype", c->type, "Of the inputs: f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, bool")
      ->capture_default_str();
  app.add_option("--range", c->range, "Of the data: LOW:HIGH");
  app.add_option("--seed", c->seed, "Of the data")->check(not_empty)->capture_default_str();
  app.add_flag("--edges", c->edges, "NaN, infinities, subnormals and the range's ends among the data");
  app.add_flag("--strided", c->strided, "Every second input with gaps and reversed dimensions");
  app.add_option("--device", c->device, "Where it is computed (see berth devices)")->capture_default_str();
  app.add_option("--tolerance", c->tolerance, "The difference that is allowed (default: by the type)");
  app.add_option("--warmup", c->warm_up, "Runs before those that are timed, up to 1000000")
      ->check(not_empty)
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--runs", c->runs, "Runs that are timed, 1 to 1000000")
      ->check(not_empty)
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--list", c->list, "The operators, with the shapes they are tried on");
  auto* const json = app.add_flag("--json", c->json, "One JSON object on standard output");
  app.add_flag("--csv", c->csv, "A line of names and a line of figures on standard output")->excludes(json);
  return [c] { return run(*c); };
}

}  // namespace berth::tool
