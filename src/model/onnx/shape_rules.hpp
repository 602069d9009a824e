// What shapes need beside the table of operators: sizes of elements that no kernel knows, operators without kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "berth/model/description.hpp"

namespace berth::model {

// A value's shape, and its elements' type by ONNX's number.
struct known {
  shape s;
  std::int64_t type = 0;
};

// Bits of an element of that type; 0: it has no size in memory that is known here.
[[nodiscard]] unsigned bits_of(std::int64_t type) noexcept;

// Operators that the table has no kernels for but whose shapes are simple. libonnx, which infers shapes too, ends in a
// crash where a node is made to hurt, so that it is not asked. `inputs`: null where nothing is known. Returns why there
// is no answer; empty: `results` is it.
[[nodiscard]] std::string infer_beside_table(const node& n, const std::vector<const known*>& inputs,
                                             std::vector<known>& results);

}  // namespace berth::model
