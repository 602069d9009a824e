// A file of ONNX as protobuf's objects, and what both readers make of their parts.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <vector>

#include "berth/op/operator.hpp"

namespace berth::model {

// The file, parsed within bounds. Throws input_error: not ONNX, truncated, too large, without a graph.
[[nodiscard]] onnx::ModelProto parse_onnx(const std::string& path);

// Without control characters, which stand in texts of libonnx and in names made to hurt.
[[nodiscard]] std::string one_line(std::string text);
// The name; throws input_error where it is not one line, since names stand in every message and report.
const std::string& name_of(const std::string& path, const std::string& name);

// The elements as they lie in memory, whatever their number; none where the type is not one of `element` or the data
// lies in another file.
[[nodiscard]] std::optional<std::vector<std::byte>> data_of(const onnx::TensorProto& t);

// Takes over a number, a text or a list; false for an attribute of another kind.
bool add_plain(op::attributes& to, const onnx::AttributeProto& a);

}  // namespace berth::model
