// The first subgraph of a TensorFlow Lite model as a graph, and the file with its operators in another order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "berth/model/onnx.hpp"

namespace berth::model {

[[nodiscard]] bool is_tflite(std::string_view text) noexcept;

// Node i is operator i. Constants are left out, variables are states, scratch of one operator is its workspace.
// Operators that share a variable keep their order. So do custom operators, calls of subgraphs and those with resources
// or random numbers, which run once. Throws input_error, also where two operators write one tensor.
[[nodiscard]] shapes_graph read_tflite_shapes(const std::string& path, std::string_view text,
                                              const std::map<std::string, std::int64_t>& said = {});

// The file with the operators in the order of `steps`, each once; no other byte changes. Throws input_error where an
// operator runs again, or where the file has a plan for the old order.
[[nodiscard]] std::string tflite_in_order(const std::string& path, std::string_view text,
                                          std::span<const std::uint32_t> steps);

}  // namespace berth::model
