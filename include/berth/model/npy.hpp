// .npy files (NumPy's format, versions 1 to 3) of f32 tensors in row-major order.
#pragma once
#pragma GCC visibility push(default)

#include <string>
#include <vector>

#include "berth/model/description.hpp"

namespace berth::model {

struct npy {
  model::shape shape;
  std::vector<float> data;
};

// Throws input_error: not a .npy file, truncated, another element type, column-major order.
[[nodiscard]] npy read_npy(const std::string& path);
// Leaves no partial file. Throws input_error.
void write_npy(const std::string& path, const shape& s, const float* data);

}  // namespace berth::model
#pragma GCC visibility pop
