#include "tool/plan_micro.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
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
  const auto index = [](std::string_view part, std::size_t& to) {
    const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), to);
    return failed == std::errc{} && end == part.data() + part.size();
  };
  const std::size_t equals = text.find('=');
  if (equals != std::string::npos) {
    model::micro_scratch s;
    std::string_view which = std::string_view{text}.substr(0, equals);
    const std::size_t colon = which.find(':');
    bool good = true;
    if (colon != std::string_view::npos) {
      good = index(which.substr(0, colon), s.subgraph);
      which.remove_prefix(colon + 1);
    }
    const auto size = parse_bytes(text.substr(equals + 1));
    if (good && index(which, s.operation) && size) {
      s.size = *size;
      return s;
    }
  }
  throw usage_error("--scratch: '" + text + "' is not [SUBGRAPH:]OPERATOR=BYTES, such as 3=4096");
}

void print_table(const micro_call& c, const model::micro_plan& p) {
  std::printf("%s\n", printable(c.file == "-" ? "standard input" : c.file).c_str());
  std::printf("  tensors       %zu, of which %lld are planned\n", p.offsets.size(),
              static_cast<long long>(p.offsets.size()) - std::ranges::count(p.offsets, -1));
  std::printf("  scratch       %zu buffers\n", p.scratch.size());
  if (p.variables != 0) std::printf("  variables     %s of the tail\n", human_exactly(p.variables).c_str());
  std::printf("  arena head    %s\n", human_exactly(p.head).c_str());
  std::printf("  by TFLM alone %s\n", human_exactly(p.own_head).c_str());
  std::printf("  lower bound   %s\n", human_exactly(p.lower_bound).c_str());
  if (p.model.empty()) {
    std::printf("  not written: TFLM's own planner needs less\n");
  } else {
    std::printf("  written to    %s\n", printable(c.out).c_str());
    if (!c.header.empty()) std::printf("  header        %s\n", printable(c.header).c_str());
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
  if (!p.model.empty()) {
    const std::string stem = std::filesystem::path{c.header}.stem().string();
    if (c.header.empty()) {
      model::write_file(c.out, p.model);
    } else {
      write_both(c.header, model::micro_header(p, c.prefix.empty() ? stem : c.prefix), c.out, p.model);
    }
  }
  if (c.json) {
    nlohmann::ordered_json out{{"format", "berth-plan/1"},
                               {"arena_bytes", p.head},
                               {"own_arena_bytes", p.own_head},
                               {"lower_bound", p.lower_bound},
                               {"optimal", p.head == p.lower_bound},
                               {"variable_bytes", p.variables},
                               {"written", !p.model.empty()},
                               {"offsets", p.offsets},
                               {"scratch", nlohmann::ordered_json::array()}};
    for (const auto& s : p.scratch) {
      out["scratch"].push_back({{"subgraph", s.subgraph}, {"operator", s.operation}, {"size", s.size}});
    }
    print_json(out);
  } else if (!c.quiet) {
    print_table(c, p);
  }
  return p.model.empty() ? answer_is_no : done;
}

}  // namespace berth::tool
