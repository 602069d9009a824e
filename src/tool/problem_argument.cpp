#include "tool/problem_argument.hpp"

#include <filesystem>

#include "tool/command_line.hpp"
#include "tool/printable.hpp"

#ifdef BERTH_TOOL_RUN
#include "model/graph_problem.hpp"
#include "tool/model_argument.hpp"
#endif

namespace berth::tool {

void add_dim_option(CLI::App& app, std::vector<std::string>& dims) {
#ifdef BERTH_TOOL_RUN
  app.add_option("--dim", dims, "Binds a dimension that an .onnx FILE leaves open")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
#else
  (void)app, (void)dims;
#endif
}

bool is_model(const std::string& argument) {
#ifdef BERTH_TOOL_RUN
  return names_a_model(argument);
#else
  (void)argument;
  return false;
#endif
}

std::string file_name(const std::string& path) {
  if (path == "-") return "standard input";
  const std::string name = printable(std::filesystem::path{path}.filename().string());
  if (name.size() <= 40) return name;
  std::size_t end = 37;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // no half character
  return name.substr(0, end) + "...";
}

model::problem_file read_problem_arguments(const std::vector<std::string>& arguments, bool pipeline,
                                           const std::vector<std::string>& dims, model::reads what) {
  if (pipeline) {
    if (!dims.empty()) throw usage_error("--dim is for models, --pipeline for graphs");
    return model::read_pipeline(arguments);
  }
  if (arguments.size() > 1) throw usage_error("several files: only with --pipeline");
  const std::string& argument = arguments.front();
#ifdef BERTH_TOOL_RUN
  if (names_a_model(argument)) {
    // Uses are those of a chip, which has neither this host's kernels nor its alignment.
    const bool here = what == model::reads::buffers;
    model::shapes_graph m = read_model_graph(argument, dims, here);
    auto file = model::problem_of_graph(
        argument, m.graph, here ? rules::host() : rules::unconstrained(), [&m](value_id v) { return m.names[v.index]; },
        here ? nullptr : &m.weights);
    file.notes = std::move(m.notes);
    file.counts_all = m.counts_all;
    return file;
  }
#endif
  if (!dims.empty()) throw usage_error("--dim is for models");
  return what == model::reads::uses ? model::read_uses(argument) : model::read_problem(argument);
}

}  // namespace berth::tool
