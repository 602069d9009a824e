// The memory that the reference kernels of TensorFlow Lite for Microcontrollers request while they run.
#pragma once

#include <vector>

#include "model/tflite.hpp"

namespace berth::model {

// The sizes, in the order in which the kernel's Prepare asks (tensorflow/lite/micro/kernels, 2026-08), with pointers of
// 4 bytes; max_bytes where one exceeds 64 bits. Throws input_error: it is not known (custom operators).
[[nodiscard]] std::vector<bytes> reference_scratch(tflite_graph& graph, std::size_t subgraph, std::size_t operation);

}  // namespace berth::model
