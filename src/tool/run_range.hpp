// berth run --dim NAME=LO:HI: one arena for all values of a dimension.
#pragma once

#include <string>
#include <vector>

#include "model/open_model.hpp"

namespace berth::tool {

// Plans the model once for the range and reserves one arena. Then runs it at every value and prints the outputs'
// checksums. Returns the exit status. Throws usage_error or input_error.
int run_range(const std::string& model, const std::string& device, const std::vector<std::string>& dims,
              const model::dimension_range& range, bool json);

}  // namespace berth::tool
