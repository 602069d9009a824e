// A planning problem named on the command line: a file of one, or a model that runs here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "model/open_model.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

// Declares --dim NAME=N.
void add_dim_option(CLI::App& app, std::vector<std::string>& dims);

// Splits "name=value". Throws usage_error, which says what `option` expects.
[[nodiscard]] std::pair<std::string, std::string> split_pair(const std::string& text, const char* option,
                                                             const char* value);

// Returns the sizes of "name=N" each. Throws usage_error.
[[nodiscard]] model::dimensions dimensions_of(const std::vector<std::string>& dims);

// Takes the ranges ("name=LO:HI") out of `dims`. Throws usage_error.
[[nodiscard]] std::vector<model::dimension_range> take_ranges(std::vector<std::string>& dims);
// Returns `dims` and a value for each range.
[[nodiscard]] std::vector<std::string> with_values(std::vector<std::string> dims,
                                                   const std::vector<model::dimension_range>& ranges,
                                                   const std::vector<std::int64_t>& values);

// Returns the last part of a path, printable and short: for titles and lines of progress.
[[nodiscard]] std::string file_name(const std::string& path);

// Reads one argument, or with `pipeline` graphs that run one after the other, which have no uses. `dims`: "name=N"
// each, or of a model "name=LO:HI" for a problem with dimensions. Throws usage_error or input_error. Contract: there is
// an argument.
[[nodiscard]] model::problem_file read_problem_arguments(const std::vector<std::string>& arguments, bool pipeline,
                                                         const std::vector<std::string>& dims,
                                                         model::reads what = model::reads::buffers);

}  // namespace berth::tool
