// berth run: a model's memory planned, the model run in it, and the results.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/model/builtin.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/npy.hpp"
#include "berth/model/per_tensor.hpp"
#include "berth/model/program.hpp"
#include "berth/model/runner.hpp"
#include "berth/op/device_operators.hpp"
#include "berth/op/kernels.hpp"
#include "berth/op/operator.hpp"
#include "berth/schedule/order.hpp"
#include "op/heap_meter.hpp"
#include "tool/command_line.hpp"
#include "tool/model_argument.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/problem_argument.hpp"
#include "tool/progress_line.hpp"
#include "tool/run_range.hpp"
#include "tool/running.hpp"
#include "tool/units.hpp"
#include "tool/value_of.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

namespace {

using clock = std::chrono::steady_clock;

struct run_call {
  std::string model;
  std::string device = "host";
  std::vector<std::string> dims;    // name=N
  std::vector<std::string> inputs;  // name=FILE.npy
  std::string output;
  bool reorder = false;
  bool json = false;
};

// Counts blocks over the whole run through the event hook: every block that was taken must have come back.
class leak_count {
 public:
  leak_count() { before_ = set_hook(&hook_); }
  ~leak_count() { set_hook(before_); }
  leak_count(const leak_count&) = delete;
  leak_count& operator=(const leak_count&) = delete;
  [[nodiscard]] std::int64_t open_blocks() const noexcept { return open_.load(); }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_.load(); }

 private:
  static void hear(void* self, const memory_event& e) noexcept {
    auto& count = *static_cast<leak_count*>(self);
    if (e.kind == memory_event_kind::device_allocate || e.kind == memory_event_kind::pool_allocate) {
      ++count.open_;
      ++count.taken_;
    }
    if (e.kind == memory_event_kind::device_free || e.kind == memory_event_kind::pool_free) --count.open_;
  }
  std::atomic<std::int64_t> open_{0};
  std::atomic<std::uint64_t> taken_{0};
  hook hook_{hear, this};
  const hook* before_;
};

struct run_report {
  std::string model, device;
  op::kernel_library kernels;  // on the host
  std::size_t nodes = 0;
  std::vector<output_report> outputs;
  bytes arena = 0, lower_bound = 0, no_reuse = 0, weights = 0, workspace = 0, per_tensor_peak = 0, peak_rss = 0;
  bool optimal = false;
  double run_ms = 0, fastest_ms = 0, per_tensor_ms = 0;
  bool on_host = true;    // else nothing is known of a malloc per tensor, and `steady` counts blocks of the device
  op::heap_calls steady;  // of one run
  std::int64_t leaks = 0;
  nlohmann::ordered_json pool;
};

// Throws input_error if the inputs alone exceed this machine's memory: a dimension bound too large, mostly.
void require_room_for_inputs(const run_call& c, const model::program& p) {
  const auto room = static_cast<bytes>(sysconf(_SC_PHYS_PAGES)) * static_cast<bytes>(sysconf(_SC_PAGESIZE));
  bytes sum = 0;
  for (const auto& port : p.inputs) {
    const bytes size = p.graph[port.value].size;
    sum = checked_add(sum, size).value_or(max_bytes);
    if (sum <= room) continue;
    throw model::input_error(c.model, "input '" + port.name + "' of shape " + model::text_of(port.shape) + " takes " +
                                          std::to_string(size) + " bytes, this machine has " + std::to_string(room));
  }
}

contents read_inputs(const run_call& c, const model::program& p) {
  std::map<std::string, std::string> files;
  for (const std::string& text : c.inputs) {
    if (!files.insert(split_pair(text, "--input", "FILE.npy")).second) {
      throw usage_error("--input " + text + ": this input has a file already");
    }
  }
  contents inputs;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const auto& port = p.inputs[i];
    const auto file = files.find(port.name);
    if (file == files.end()) {
      inputs.push_back(made_up(port, i));
      continue;
    }
    model::tensor read = model::read_npy(file->second);
    if (read.type != port.type) {
      throw model::input_error(file->second, std::string{"its elements are "} + op::name(read.type) + ", input '" +
                                                 port.name + "' takes " + op::name(port.type));
    }
    if (read.shape != port.shape) {
      throw model::input_error(file->second, "its shape is " + model::text_of(read.shape) + ", input '" + port.name +
                                                 "' takes " + model::text_of(port.shape));
    }
    inputs.push_back(std::move(read.data));
    files.erase(file);
  }
  if (!files.empty()) throw usage_error("--input: the model has no input called '" + files.begin()->first + "'");
  return inputs;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

template <class F>
double ms(F&& f) {
  const auto begin = clock::now();
  f();
  return std::chrono::duration<double, std::milli>(clock::now() - begin).count();
}

// Times planned runs and, on the host, runs with one malloc per tensor by turns, so that both see the same machine.
void time_runs(run_report& r, model::runner& planned, const contents& inputs, stream& s, const leak_count& blocks) {
  std::optional<model::per_tensor_runner> naive;
  if (r.on_host) naive.emplace(planned, s);
  std::vector<const void*> addresses;
  for (const auto& input : inputs) addresses.push_back(input.data());
  const auto run_planned = [&] { run_once(planned, inputs, s); };
  const auto run_naive = [&] {
    if (!naive) return;
    value_of(naive->run(addresses));
    value_of(s.synchronize());
  };
  constexpr int least = 5, most = 200;
  constexpr double budget_ms = 1500;
  run_planned();
  run_naive();
  std::vector<double> a, b;
  for (double spent = 0;
       static_cast<int>(a.size()) < least || (spent < budget_ms && static_cast<int>(a.size()) < most);) {
    a.push_back(ms(run_planned));
    b.push_back(ms(run_naive));
    spent += a.back() + b.back();
  }
  r.run_ms = median(a);
  r.fastest_ms = *std::min_element(a.begin(), a.end());
  r.per_tensor_ms = median(b);
  if (naive) r.per_tensor_peak = naive->peak();

  constexpr std::uint64_t counted_runs = 4;
  run_planned();
  const std::uint64_t taken = blocks.taken();
  const op::heap_calls before = op::heap_calls_so_far();
  for (std::uint64_t i = 0; i < counted_runs; ++i) run_planned();
  const op::heap_calls after = op::heap_calls_so_far();
  if (r.on_host) {
    r.steady = {after.heap - before.heap, (after.kernel_nodes - before.kernel_nodes) / counted_runs, after.counted};
  } else {
    r.steady = {blocks.taken() - taken, 0, true};
  }
}

nlohmann::ordered_json pool_json(const pool& p) {
  const pool_statistics s = p.statistics();
  return {{"live_bytes", s.live},           {"live_peak_bytes", s.live_peak},
          {"reserved_bytes", s.reserved},   {"reserved_peak_bytes", s.reserved_peak},
          {"allocations", s.allocations},   {"frees", s.frees},
          {"device_calls", s.device_calls}, {"fragmentation", s.fragmentation()}};
}

// Writes one .npy an output, called after it; no two outputs go to one file, and none over an input.
void write_outputs(const run_call& c, run_report& r, const model::runner& planned, stream& s) {
  std::error_code failed;
  std::filesystem::create_directories(c.output, failed);
  if (failed) throw model::input_error(c.output, "cannot create the folder: " + failed.message());
  const auto& ports = planned.get_program().outputs;
  std::vector<std::string> names, inputs{c.model};
  for (const auto& port : ports) names.push_back(port.name);
  for (const std::string& text : c.inputs) inputs.push_back(split_pair(text, "--input", "FILE.npy").second);
  names = file_names(names);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    r.outputs[i].file = (std::filesystem::path{c.output} / (names[i] + ".npy")).string();
    refuse_input_as_output(r.outputs[i].file, inputs);
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    model::write_npy(r.outputs[i].file, ports[i].type, ports[i].shape, read_output(planned, i, s).data());
  }
}

run_report run_model(const run_call& c, progress_line& line) {
  run_report r;
  r.model = c.model;
  const leak_count leaks;
  {
    const device where = of_device(c.device, device::open(c.device));
    r.device = where.properties().name + " (" + where.properties().description + ")";
    auto by = of_device(c.device, op::device_server(where));
    r.on_host = !by;
    if (r.on_host) r.kernels = op::get_kernel_library();
    line.stage("reading " + file_name(c.model));
    model::program p = model::lower(read_model(c.model, c.dims), std::move(by));
    require_room_for_inputs(c, p);
    if (c.reorder) {
      line.stage("ordering");
      schedule::ordered found = value_of(schedule::find_order(p.graph));
      p = model::in_order(std::move(p), std::move(found.after), found.steps);
    }
    const auto inputs = read_inputs(c, p);

    pool memory{where};
    stream s{where};
    r.no_reuse = model::no_reuse_bytes(p);
    r.workspace = model::largest_workspace(p);
    r.nodes = p.graph.nodes().size();
    line.stage("planning and packing");
    model::runner planned = value_of(model::runner::create(std::move(p), memory, s));
    const auto& chosen = planned.get_arena().get_plan();
    r.arena = chosen.arena();
    r.lower_bound = chosen.lower_bound();
    r.optimal = chosen.optimal();
    r.weights = planned.weights_bytes();

    run_once(planned, inputs, s);
    r.outputs = outputs_of(planned, s);
    if (!c.output.empty()) write_outputs(c, r, planned, s);
    line.stage("timing");
    time_runs(r, planned, inputs, s, leaks);
    r.pool = pool_json(memory);
  }
  r.leaks = leaks.open_blocks();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  r.peak_rss = static_cast<bytes>(usage.ru_maxrss) * 1024;
  return r;
}

nlohmann::ordered_json to_json(const run_report& r) {
  nlohmann::ordered_json j;
  j["model"] = r.model;
  j["device"] = r.device;
  if (r.on_host) j["kernels"] = r.kernels.called();
  j["nodes"] = r.nodes;
  j["outputs"] = to_json(r.outputs);
  j["arena_bytes"] = r.arena;
  j["lower_bound"] = r.lower_bound;
  j["optimal"] = r.optimal;
  j["no_reuse_bytes"] = r.no_reuse;
  j["weights_bytes"] = r.weights;
  j["workspace_bytes"] = r.workspace;
  j["peak_rss_bytes"] = r.peak_rss;
  j["run_ms"] = r.run_ms;
  j["run_fastest_ms"] = r.fastest_ms;
  if (r.on_host) {
    j["malloc_per_tensor_ms"] = r.per_tensor_ms;
    j["malloc_per_tensor_peak_bytes"] = r.per_tensor_peak;
  }
  if (r.steady.counted) {
    j["allocations_in_steady_state"] = r.steady.heap;
    if (r.on_host) j["kernel_nodes_per_run"] = r.steady.kernel_nodes;
  } else {
    j["allocations_in_steady_state"] = nullptr;
  }
  j["leaks"] = r.leaks;
  j["pool"] = r.pool;
  return j;
}

// ONNX Runtime's planned block for the same model, from docs/model.md: its measurement and its date stand there.
struct peer_figure {
  const char* file;
  double megabytes;
};
constexpr peer_figure peer_figures[] = {
    {"blazeface_back.onnx", 5.37},   {"face_detection_back_256x256_barracuda.onnx", 5.37},
    {"blazeface_front.onnx", 2.49},  {"face_detection_front_128x128_barracuda.onnx", 2.49},
    {"speech_embedding.onnx", 0.83}, {"embedding_model.onnx", 0.83}};

void print_table(const run_report& r) {
  const auto row = [](const char* what, const std::string& value, const std::string& note = "") {
    std::printf("  %-22s %14s   %s\n", what, value.c_str(), note.c_str());
  };
  const double times = static_cast<double>(r.no_reuse) / static_cast<double>(std::max<bytes>(r.arena, 1));
  std::printf("%s on %s\n", printable(r.model).c_str(), printable(r.device).c_str());
  if (r.on_host) row("kernels", "", r.kernels.called() + (r.kernels.why_not.empty() ? "" : ": " + r.kernels.why_not));
  row("arena", human(r.arena), r.arena == r.lower_bound ? "equals the lower bound: no plan is smaller" : "");
  row("lower bound", human(r.lower_bound));
  row("without reuse", human(r.no_reuse), formatted("%.1f times the arena", times));
  if (r.on_host) row("malloc per tensor", human(r.per_tensor_peak), "at its peak, what malloc itself adds not counted");
  const std::string file = std::filesystem::path{r.model}.filename().string();
  for (const peer_figure& peer : peer_figures) {
    if (file != peer.file) continue;
    row("ONNX Runtime 1.30", human(static_cast<bytes>(peer.megabytes * 1e6)),
        "its planned block, workspaces not counted (2026-11-21, docs/model.md)");
  }
  row("weights", human(r.weights), "outside the arena, packed once");
  row("workspace", human(r.workspace), "the largest operator's, inside the arena");
  row("peak resident", human(r.peak_rss), "the whole process");
  row("time per run", formatted("%.3f ms", r.run_ms), "median, " + std::to_string(r.nodes) + " operations");
  if (r.on_host) row("  malloc per tensor", formatted("%.3f ms", r.per_tensor_ms), "the same kernels, by turns");
  if (!r.on_host) {
    row("blocks taken, steady", std::to_string(r.steady.heap), "of the device or the pool, in four runs");
  } else if (r.steady.counted) {
    row("heap calls, steady", std::to_string(r.steady.heap),
        std::to_string(r.steady.kernel_nodes) + " pieces a run of the kernels' own from fixed nodes (docs/op.md)");
  }
  row("leaks", std::to_string(r.leaks));
  for (const auto& o : r.outputs) {
    const std::string to = o.file.empty() ? "" : " -> " + o.file;
    const std::string type = o.type == element::f32 ? "" : std::string{" "} + op::name(o.type);
    row("output", model::text_of(o.shape) + type, printable(o.name + "  " + o.checksum + to));
  }
}

}  // namespace

std::function<int()> declare_run(CLI::App& app) {
  auto c = std::make_shared<run_call>();
  std::string builtin;
  for (const std::string& name : model::builtin_names()) builtin += ", " + name;
  app.add_option("MODEL", c->model, "An .onnx file (- is standard input)" + builtin)->required();
  app.add_option("--device", c->device, "Where the memory is (see berth devices)")->capture_default_str();
  add_dim_option(app, c->dims);
  app.add_option("--input", c->inputs, "A file for an input of the model (default: fixed pseudo-random values)")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  add_out_option(app, c->output, "A folder for one .npy an output", "--output")->type_name("DIR");
  app.add_flag("--reorder", c->reorder, "Run the nodes in the order of `berth plan --reorder`");
  app.add_flag("--json", c->json, "One JSON object on standard output");
  return [c] {
    if (c->output == "-") throw usage_error("--out: a folder, not standard output");
    std::vector<std::string> dims = c->dims;
    const std::vector<model::dimension_range> ranges = take_ranges(dims);
    if (!ranges.empty()) {
      if (ranges.size() > 1 || c->reorder || !c->output.empty() || !c->inputs.empty()) {
        throw usage_error("--dim NAME=LO:HI: one range, with --device, --json and other --dim only");
      }
      if (c->model == "-") throw usage_error("--dim NAME=LO:HI: of a file, since standard input is read only once");
      return run_range(c->model, c->device, dims, ranges[0], c->json);
    }
    std::optional<progress_line> line{std::in_place, !c->json};
    const run_report r = run_model(*c, *line);
    line.reset();
    c->json ? print_json(to_json(r)) : print_table(r);
    return static_cast<int>(r.leaks == 0 ? done : answer_is_no);
  };
}

}  // namespace berth::tool
