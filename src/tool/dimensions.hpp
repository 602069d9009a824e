// Values of a problem's dimensions, as verbs take them: --at batch=4,seq=128.
#pragma once

#include <string>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

void add_at_option(CLI::App& app, std::vector<std::string>& at, const char* what);

// Returns one value a dimension, in the file's order. Throws usage_error: an unknown or repeated name, a dimension
// without a value, or a problem without dimensions. A value must be a whole number in its bounds.
[[nodiscard]] std::vector<bytes> values_of(const model::problem_file& file, const std::vector<std::string>& at);

// Returns the same problem at these values, without dimensions.
[[nodiscard]] model::problem_file problem_at(const model::problem_file& file, const std::vector<bytes>& values);

}  // namespace berth::tool
