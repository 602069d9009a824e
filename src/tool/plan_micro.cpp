#include "tool/plan_micro.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "berth/model/input_error.hpp"
#include "berth/model/tflite_plan.hpp"
#include "model/file.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/units.hpp"

namespace berth::tool {
namespace {

model::micro_scratch read_scratch(const std::string& text) {
  const std::size_t equals = text.find('=');
  model::micro_scratch s;
  if (equals != std::string::npos) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + equals, s.operation);
    const auto size = parse_bytes(text.substr(equals + 1));
    if (failed == std::errc{} && end == text.data() + equals && equals != 0 && size) {
      s.size = *size;
      return s;
    }
  }
  throw usage_error("--scratch: '" + text + "' is not OPERATOR=BYTES, such as 3=4096");
}

void print_table(const micro_call& c, const model::micro_plan& p) {
  std::printf("%s\n", printable(c.file == "-" ? "standard input" : c.file).c_str());
  std::printf("  tensors       %zu, of which %lld are planned\n", p.offsets.size(),
              static_cast<long long>(p.offsets.size()) - std::ranges::count(p.offsets, -1));
  std::printf("  scratch       %zu buffers\n", p.scratch.size());
  std::printf("  arena head    %s\n", human_exactly(p.head).c_str());
  std::printf("  by TFLM alone %s\n", human_exactly(p.own_head).c_str());
  std::printf("  lower bound   %s\n", human_exactly(p.lower_bound).c_str());
  if (p.model.empty()) {
    std::printf("  not written: TFLM's own planner needs less\n");
  } else {
    std::printf("  written to    %s\n", printable(c.out).c_str());
  }
}

}  // namespace

int plan_micro(const micro_call& c) {
  std::vector<model::micro_scratch> scratch;
  for (const std::string& s : c.scratch) scratch.push_back(read_scratch(s));
  const std::string text = model::read_file(c.file);
  if (text.size() < 8 || text.compare(4, 4, "TFL3") != 0) {
    throw model::input_error(c.file, "not a TFLite model: only one can hold a plan (--out FILE.tflite)");
  }
  const model::micro_plan p = model::plan_for_micro(c.file, text, scratch, c.options);
  if (!p.model.empty()) model::write_file(c.out, p.model);
  if (c.json) {
    nlohmann::ordered_json out{{"format", "berth-plan/1"},
                               {"arena_bytes", p.head},
                               {"own_arena_bytes", p.own_head},
                               {"lower_bound", p.lower_bound},
                               {"optimal", p.head == p.lower_bound},
                               {"written", !p.model.empty()},
                               {"offsets", p.offsets},
                               {"scratch", nlohmann::ordered_json::array()}};
    for (const auto& s : p.scratch) out["scratch"].push_back({{"operator", s.operation}, {"size", s.size}});
    print_json(out);
  } else if (!c.quiet) {
    print_table(c, p);
  }
  return p.model.empty() ? answer_is_no : done;
}

}  // namespace berth::tool
