// An ONNX file's bytes to its messages.
#pragma once

#include <string>
#include <string_view>

#include "model/onnx/messages.hpp"

namespace berth::model::wire {

// Parses `file`, which must outlive the result. Throws input_error, with the place of the first byte that is wrong: not
// ONNX, truncated, messages more than 100 deep, no graph, or parts that take more than 512 MiB and 16 times the file.
// O(file).
[[nodiscard]] model parse(const std::string& path, std::string_view file);

}  // namespace berth::model::wire
