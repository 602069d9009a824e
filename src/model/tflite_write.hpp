// Writing a plan into a TensorFlow Lite model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tflite.hpp"

namespace berth::model {

// The model with these offsets as its OfflineMemoryAllocation, in place of one that it has; all else as it is.
// `offsets` are those of all tensors of all subgraphs. Throws input_error: the root has fields that are not known.
[[nodiscard]] std::string with_offline_plan(const std::string& path, std::string_view text,
                                            const std::vector<std::int32_t>& offsets);

}  // namespace berth::model
