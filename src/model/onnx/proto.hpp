// A file of ONNX as protobuf's objects, and what both readers make of their parts.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "berth/op/operator.hpp"

namespace berth::model {

// The file's bytes, parsed within bounds. Throws input_error: not ONNX, truncated, too large, without a graph.
[[nodiscard]] onnx::ModelProto parse_onnx(const std::string& path, std::string_view file);

// Adds the names that the node's sub-graphs read of the graph around them, and so the node itself.
void add_captured(const onnx::NodeProto& n, std::set<std::string>& names);

// By node of the file, which nodes before it make what it reads.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> makers_of(const onnx::GraphProto& g);

// ONNX's own, or one of the optimizers of ai.onnx.preview.training that the table of operators has.
[[nodiscard]] bool is_known_domain(const onnx::NodeProto& n);

// The name; throws input_error where it is not one line, since names stand in every message and report.
const std::string& name_of(const std::string& path, const std::string& name);

// The elements as they lie in memory, whatever their number; none where the type is not one of `element` or the data
// lies in another file.
[[nodiscard]] std::optional<std::vector<std::byte>> data_of(const onnx::TensorProto& t);

// Takes over a number, a text or a list; false for an attribute of another kind.
bool add_plain(op::attributes& to, const onnx::AttributeProto& a);

}  // namespace berth::model
