// A planning problem named on the command line: a file of one, or a model that runs here.
#pragma once

#include <string>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

// Declares --dim NAME=N, where the tool is built with models.
void add_dim_option(CLI::App& app, std::vector<std::string>& dims);

// `dims`: "name=N" each. Throws usage_error or input_error.
[[nodiscard]] model::problem_file read_problem_argument(const std::string& argument,
                                                        const std::vector<std::string>& dims);

}  // namespace berth::tool
