// .npy files (NumPy's format, versions 1 to 3) of tensors in row-major order, little-endian. NumPy lacks bf16, which is
// '<V2', as ml_dtypes writes it.
#pragma once
#pragma GCC visibility push(default)

#include <string>

#include "berth/model/description.hpp"

namespace berth::model {

// Throws input_error: not a .npy file, truncated, an element type that is none of `element`, column-major order.
[[nodiscard]] tensor read_npy(const std::string& path);
// Leaves no partial file. Throws input_error.
void write_npy(const std::string& path, element type, const shape& s, const void* data);

}  // namespace berth::model
#pragma GCC visibility pop
