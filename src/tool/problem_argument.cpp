#include "tool/problem_argument.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "model/graph_problem.hpp"
#include "tool/command_line.hpp"
#include "tool/model_argument.hpp"
#include "tool/printable.hpp"

namespace berth::tool {

void add_dim_option(CLI::App& app, std::vector<std::string>& dims) {
  app.add_option("--dim", dims, "Binds a dimension that an .onnx or .tflite FILE leaves open")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
}

std::pair<std::string, std::string> split_pair(const std::string& text, const char* option, const char* value) {
  const auto at = text.find('=');
  if (at == std::string::npos || at == 0) {
    throw usage_error(std::string{option} + " " + text + ": expected name=" + value);
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

model::dimensions dimensions_of(const std::vector<std::string>& dims) {
  model::dimensions said;
  for (const std::string& text : dims) {
    const auto [name, number] = split_pair(text, "--dim", "N");
    char* end = nullptr;
    errno = 0;
    const long long size = std::strtoll(number.c_str(), &end, 10);
    if (number.empty() || *end != 0 || errno != 0 || size < 0) {
      throw usage_error("--dim " + text + ": '" + number + "' is not a 64-bit number from 0 on");
    }
    if (!said.emplace(name, size).second) throw usage_error("--dim " + text + ": '" + name + "' has a size already");
  }
  return said;
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
  if (names_a_model(argument)) {
    // Uses are those of a chip, which has neither this host's kernels nor its alignment.
    const bool here = what == model::reads::buffers;
    model::shapes_graph m = read_model_graph(argument, dims, here);
    auto file = model::problem_of_graph(
        argument, m.graph, here ? rules::host() : rules::unconstrained(), [&m](value_id v) { return m.names[v.index]; },
        here ? nullptr : &m.weights);
    file.notes = std::move(m.notes);
    file.kernels = std::move(m.kernels);
    file.counts_all = m.counts_all;
    return file;
  }
  const model::dimensions said = dimensions_of(dims);
  return what == model::reads::uses ? model::read_uses(argument, said) : model::read_problem(argument, said);
}

}  // namespace berth::tool
