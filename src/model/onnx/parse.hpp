// An ONNX file's bytes to its messages.
#pragma once

#include <string>
#include <string_view>

#include "model/onnx/messages.hpp"

namespace berth::model::wire {

// Parses `file`, which must outlive the result. Throws input_error with the place of the first wrong byte. The file is
// not ONNX, truncated or without a graph, or has messages more than 100 deep. The parts may take 512 MiB and 16 times
// the file. O(file).
[[nodiscard]] model parse(const std::string& path, std::string_view file);

}  // namespace berth::model::wire
