// The operators of ONNX: the opsets that defined each anew, and its attributes there. The kernels are rows of another
// table (berth/op/operator.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::model {

// The newest opset whose operators are read as they are defined, and the newest whose changes the table knows.
inline constexpr std::int64_t newest_opset = 25, newest_known_opset = 28;

struct onnx_operator {
  const char* names;       // of operators with one history, "Sin Cos"
  const char* opsets;      // in which they were defined anew, "1 6 13"; the first is their first
  const char* attributes;  // "axis keepdims:11 axes:1-12": in all opsets, from the 11th on, from the first to the 12th
};

// Returns the row, or null.
[[nodiscard]] const onnx_operator* find_onnx_operator(std::string_view name);
// Returns the last opset up to `opset` in which the operator was defined anew; 0: it was not there yet.
[[nodiscard]] std::int64_t defined_in(const onnx_operator& row, std::int64_t opset) noexcept;
[[nodiscard]] bool has_attribute(const onnx_operator& row, std::string_view name, std::int64_t opset) noexcept;
// Returns whether the operator means the same in both opsets; an unknown one does.
[[nodiscard]] bool same_between(std::string_view name, std::int64_t a, std::int64_t b);
// Returns a sentence on an operator that has changed after newest_opset, in a file of `opset`; else "".
[[nodiscard]] std::string newer_than_read(std::string_view name, std::int64_t opset);

}  // namespace berth::model
