// The ONNX reader: a file (opset <= 17, IR <= 8) to a model description.
//
// The file is parsed, its free dimensions are bound, and it is checked by ONNX's own checker (which also finds an
// unsorted graph) before anything is built from it. Sub-graphs (If, Loop), external data and sparse tensors are not
// read. Memory: some three times the file, and at most 512 MiB and 16 times the file beside its bytes; told before it
// is parsed (docs/model.md has all bounds). Needs libonnx; protobuf's own messages are silenced.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <map>
#include <string>

#include "berth/model/description.hpp"

namespace berth::model {

// By name: the dimensions that the file leaves open ("batch" = 1).
using dimensions = std::map<std::string, std::int64_t>;

// Throws input_error: not ONNX, truncated, an operator ONNX does not know, an unsorted graph, a dimension left unbound,
// a name in `bound` that no input has, a shape beyond the bounds of description.hpp.
[[nodiscard]] description read_onnx(const std::string& path, const dimensions& bound = {});

}  // namespace berth::model
#pragma GCC visibility pop
