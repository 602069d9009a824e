// A planning problem named on the command line: a file of one, or a model that runs here.
#pragma once

#include <string>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

// Declares --dim NAME=N, if the tool is built with models.
void add_dim_option(CLI::App& app, std::vector<std::string>& dims);

// Returns whether it is a model rather than a file of a problem: builtin:NAME or FILE.onnx, if built with models.
[[nodiscard]] bool is_model(const std::string& argument);

// Returns the last part of a path, printable and short: for titles and lines of progress.
[[nodiscard]] std::string file_name(const std::string& path);

// Reads one argument, or with `pipeline` graphs that run one after the other. `dims`: "name=N" each. Throws usage_error
// or input_error. Contract: there is an argument.
[[nodiscard]] model::problem_file read_problem_arguments(const std::vector<std::string>& arguments, bool pipeline,
                                                         const std::vector<std::string>& dims);

}  // namespace berth::tool
