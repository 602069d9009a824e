// berth plan media: decoding, resizing and inference of an NPU in one block of media memory.
#include "berth/plan/media.hpp"

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "berth/model/plan_file.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/plan_output.hpp"
#include "tool/planned.hpp"
#include "tool/printable.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

struct media_call {
  std::string scenario;
  std::string chip = "310P";
  std::string format = "yuv420sp";
  std::uint32_t width = 0, height = 0, model_width = 224, model_height = 224;
  std::uint32_t element_bytes = 4, references = 4, shown = 2, packets = 2;
  std::optional<bytes> file, packet, output, workspace;
  std::string out;
  std::string prefix;  // of a C header's names
  bool json = false;
};

result<plan::problem> problem_of(const media_call& call) {
  const plan::media_model model{.width = call.model_width,
                                .height = call.model_height,
                                .element_bytes = call.element_bytes,
                                .output_bytes = call.output.value_or(4'000),
                                .workspace_bytes = call.workspace.value_or(0)};
  const rules::media_chip chip = *rules::find_media_chip(call.chip);
  if (call.scenario == "vdec") {
    return plan::vdec_problem({.chip = chip,
                               .width = call.width,
                               .height = call.height,
                               .references = call.references,
                               .shown = call.shown,
                               .packets = call.packets,
                               .packet_bytes = call.packet.value_or(0),
                               .model = model});
  }
  // The file's size may be unknown: a byte a pixel is more than any photograph takes.
  const bytes file = call.file.value_or(bytes{call.width} * call.height);
  return plan::jpeg_problem({.chip = chip,
                             .format = *rules::find_pixels(call.format),
                             .width = call.width,
                             .height = call.height,
                             .file_bytes = file,
                             .model = model});
}

struct media_figures {
  bytes live = 0;  // the most bytes that are in use at a time, with nothing added
  bytes block_in_pages = 0;
  plan::separate_allocations apart{};
};

media_figures figures_of(plan::problem p, bytes arena) {
  constexpr bytes huge = bytes{2} << 20;
  media_figures f{.block_in_pages = align_up(arena, huge), .apart = plan::one_allocation_each(p)};
  for (plan::buffer& b : p.buffers) {
    b.granularity = 1;
    b.tail_pad = 0;
    b.alignment = 1;
  }
  const auto bare = plan::solve(p);
  f.live = bare ? bare->lower_bound() : 0;
  return f;
}

void print_table(const media_call& call, const plan::problem& p, const plan::plan& answer, const media_figures& f) {
  std::printf("%s, %ux%u on %s\n", call.scenario.c_str(), call.width, call.height, call.chip.c_str());
  std::printf("  %-12s %14s %14s %8s %10s\n", "buffer", "offset", "size", "start", "ticks");
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const plan::buffer& b = p.buffers[i];
    std::printf("  %-12s %14" PRIu64 " %14" PRIu64 " %8" PRIu64 " %4" PRId64 "..%" PRId64 "\n", b.name.c_str(),
                answer.offsets[i], b.size, p.alignment_of(i), b.live.lower, b.live.upper);
  }
  std::printf("  one block    %s, in pages %s%s\n", human_exactly(answer.arena()).c_str(),
              human(f.block_in_pages).c_str(), answer.optimal() ? "; no smaller one is possible" : "");
  std::printf("  waste        %s (rounding, tails and alignment)\n", human_exactly(answer.arena() - f.live).c_str());
  std::printf("  one each     %s, in pages %s\n", human_exactly(f.apart.rounded).c_str(),
              human(f.apart.in_pages).c_str());
  if (!call.out.empty()) std::printf("  written to   %s\n", printable(call.out).c_str());
}

nlohmann::ordered_json json_of(const media_call& call, const plan::problem& p, const plan::plan& answer,
                               const media_figures& f, bool verified) {
  nlohmann::ordered_json buffers = nlohmann::ordered_json::array();
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const plan::buffer& b = p.buffers[i];
    buffers.push_back({{"id", b.name},
                       {"offset", answer.offsets[i]},
                       {"size", b.size},
                       {"lower", b.live.lower},
                       {"upper", b.live.upper},
                       {"alignment", p.alignment_of(i)},
                       {"size_granularity", p.granularity_of(i)},
                       {"tail_pad", p.tail_pad_of(i)}});
  }
  return {{"scenario", call.scenario},
          {"chip", call.chip},
          {"arena_bytes", answer.arena()},
          {"lower_bound", answer.lower_bound()},
          {"optimal", answer.optimal()},
          {"verified", verified},
          {"waste_bytes", answer.arena() - f.live},
          {"block_in_pages_bytes", f.block_in_pages},
          {"one_each_bytes", f.apart.rounded},
          {"one_each_in_pages_bytes", f.apart.in_pages},
          {"buffers", std::move(buffers)}};
}

int plan_media(const media_call& call) {
  const auto start = std::chrono::steady_clock::now();
  auto made = problem_of(call);
  if (!made) {
    const error& why = made.error();
    throw usage_error(why.what + (why.number != 0 ? " (" + std::to_string(why.number) + ")" : std::string{}));
  }
  const model::problem_file file{.path = "media", .problem = std::move(*made)};
  const plan::problem& p = file.problem;
  const auto answer = plan::solve(p);
  if (!answer) throw usage_error(answer.error().what);
  const double elapsed_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const bool verified = !plan::verify(p, *answer);
  if (!call.out.empty() && verified) {
    write_plan(call.out, call.prefix, call.scenario + " on " + call.chip, file, *answer,
               model::plan_json(file, *answer, elapsed_ms));
  }
  const media_figures f = figures_of(p, answer->arena());
  if (call.json && call.out != "-") print_json(json_of(call, p, *answer, f, verified));
  if (!call.json && call.out != "-") print_table(call, p, *answer, f);
  return verified ? done : answer_is_no;
}

// Options of the other scenario would be read and do nothing.
void refuse_options_of_others(const CLI::App& app, const media_call& call) {
  const auto refuse = [&](std::initializer_list<const char*> options, const char* scenario) {
    for (const char* option : options) {
      if (app.count(option) != 0) throw usage_error(std::string{option} + ": of --scenario " + scenario + " only");
    }
  };
  if (call.scenario == "vdec") refuse({"--format", "--file"}, "jpeg");
  if (call.scenario == "jpeg") refuse({"--references", "--shown", "--packets", "--packet"}, "vdec");
  for (const auto& [option, pixels] : {std::pair{"--width", call.width}, std::pair{"--height", call.height}}) {
    if (pixels == 0) throw usage_error(std::string{option} + ": at least 1");
  }
  if (call.packet == bytes{0}) throw usage_error("--packet: at least 1");
  if (call.json && call.out == "-") throw usage_error("--out: not on standard output with --json");
  require_plan_format(call.out, call.prefix);
}

}  // namespace

std::function<int()> declare_media(CLI::App& app) {
  auto call = std::make_shared<media_call>();
  std::vector<std::string> chips;
  for (const rules::media_chip& one : rules::media_chips()) chips.emplace_back(one.name);
  app.add_option("--scenario", call->scenario, "jpeg: a picture; vdec: a stream of frames; then resizing and a model")
      ->required()
      ->check(CLI::IsMember({"jpeg", "vdec"}));
  app.add_option("--width", call->width, "Of the picture or the frames, in pixels")->required()->check(not_empty);
  app.add_option("--height", call->height, "The same")->required()->check(not_empty);
  app.add_option("--chip", call->chip, "Ascend chip, whose strides count")
      ->check(CLI::IsMember(chips))
      ->capture_default_str();
  app.add_option("--format", call->format, "Of the decoded JPEG")
      ->check(CLI::IsMember({"yuv400", "yuv420sp", "yuv422sp", "yuv440sp", "yuv444sp"}))
      ->capture_default_str();
  add_bytes_option(app, "--file", call->file, "The JPEG file's size; a byte a pixel where it is not given");
  app.add_option("--references", call->references, "Frames that a stream refers back to")
      ->check(not_empty)
      ->capture_default_str();
  app.add_option("--shown", call->shown, "Frames that wait to be shown")->check(not_empty)->capture_default_str();
  app.add_option("--packets", call->packets, "Packets of input in flight")->check(not_empty)->capture_default_str();
  add_bytes_option(app, "--packet", call->packet, "The largest packet's size; a whole frame where it is not given");
  app.add_option("--model-width", call->model_width, "Of the model's input, three planes")
      ->check(not_empty)
      ->capture_default_str();
  app.add_option("--model-height", call->model_height, "The same")->check(not_empty)->capture_default_str();
  app.add_option("--element", call->element_bytes, "Bytes of an element of the model's input")
      ->check(not_empty)
      ->capture_default_str();
  add_bytes_option(app, "--output", call->output, "The model's output; 4000 bytes where it is not given");
  add_bytes_option(app, "--workspace", call->workspace, "What the model needs while it runs");
  add_out_option(app, call->out, "Write the plan to FILE.json, .csv, .h (C) or .html");
  add_prefix_option(app, call->prefix);
  app.add_flag("--json", call->json, "One JSON object on standard output");
  return [call, &app] {
    refuse_options_of_others(app, *call);
    return plan_media(*call);
  };
}

}  // namespace berth::tool
