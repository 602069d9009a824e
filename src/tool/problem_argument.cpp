#include "tool/problem_argument.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "model/graph_problem.hpp"
#include "tool/command_line.hpp"
#include "tool/model_argument.hpp"
#include "tool/printable.hpp"

namespace berth::tool {

void add_dim_option(CLI::App& app, std::vector<std::string>& dims) {
  app.add_option(
         "--dim", dims,
         "Binds a dimension that an .onnx or .tflite FILE leaves open; LO:HI of an .onnx FILE: one plan for all\n"
         "values of a range")
      ->type_name("NAME=N|LO:HI")
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

std::vector<model::dimension_range> take_ranges(std::vector<std::string>& dims) {
  std::vector<model::dimension_range> ranges;
  std::erase_if(dims, [&](const std::string& text) {
    const auto [name, value] = split_pair(text, "--dim", "N");
    const std::size_t colon = value.find(':');
    if (colon == std::string::npos) return false;
    const std::string low = name + "=" + value.substr(0, colon), high = name + "=" + value.substr(colon + 1);
    ranges.push_back({name, dimensions_of({low}).at(name), dimensions_of({high}).at(name)});
    return true;
  });
  return ranges;
}

std::vector<std::string> with_values(std::vector<std::string> dims, const std::vector<model::dimension_range>& ranges,
                                     const std::vector<std::int64_t>& values) {
  for (std::size_t d = 0; d < ranges.size(); ++d) dims.push_back(ranges[d].name + "=" + std::to_string(values[d]));
  return dims;
}

namespace {

std::string note_of(const model::open_model& m, const std::string& dimension) {
  std::string note = "the sizes were compared with the model's at " + dimension + " =";
  for (const std::int64_t value : m.tried) note += " " + std::to_string(value);
  note += "; other values were not tried";
  if (m.larger != 0) {
    note += "; " + std::to_string(m.larger) + " sizes are no sums of products, and larger than needed at some values";
  }
  return note;
}

// Reads a model with ranges of dimensions as a graph with dimensions.
model::shapes_graph read_open_graph(const std::string& argument, std::vector<std::string> dims) {
  const std::vector<model::dimension_range> ranges = take_ranges(dims);
  if (ranges.empty()) return read_model_graph(argument, dims);
  std::optional<model::shapes_graph> most;
  model::open_model open = model::open_by_fit(argument, ranges, [&](const std::vector<std::int64_t>& at) {
    model::shapes_graph read = read_model_graph(argument, with_values(dims, ranges, at));
    if (!most) most = read;
    return std::move(read.graph);
  });
  most->graph = std::move(open.graph);
  most->notes.push_back(note_of(open, ranges[0].name));
  if (open.larger != 0) most->counts_all = false;
  return *std::move(most);
}

}  // namespace

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
    model::shapes_graph m = here ? read_open_graph(argument, dims) : read_model_graph(argument, dims, false);
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
