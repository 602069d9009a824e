#include "tool/plan_output.hpp"

#include <filesystem>

#include "berth/model/plan_file.hpp"
#include "model/file.hpp"
#include "tool/planned.hpp"
#include "tool/trace_input.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

std::string prefix_of(const std::string& out) {
  return std::filesystem::path{out}.stem().string();
}

void require_plan_format(const std::string& out, const std::string& prefix) {
  const bool header = out.ends_with(".h");
  if (!out.empty() && out != "-" && !header && !out.ends_with(".json") && !out.ends_with(".csv") &&
      !out.ends_with(".html")) {
    throw usage_error("--out: '" + out + "' ends neither in .json nor in .csv nor in .h nor in .html");
  }
  if (!prefix.empty() && !header) throw usage_error("--prefix: for --out FILE.h only");
}

void write_plan(const std::string& out, const std::string& prefix, const std::string& title,
                const model::problem_file& file, const plan::plan& answer, const std::string& json) {
  if (out.ends_with(".json") || out == "-") {
    model::write_file(out, json);
  } else if (out.ends_with(".csv")) {
    model::write_file(out, model::plan_csv(file, answer));
  } else if (out.ends_with(".html")) {
    trace::picture picture = picture_of(facts_of(file, answer));
    picture.title = title;
    model::write_file(out, trace::to_html(picture));
  } else {
    model::write_file(out, model::plan_header(file, answer, prefix.empty() ? prefix_of(out) : prefix));
  }
}

}  // namespace berth::tool
