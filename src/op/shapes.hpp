// The rules of shapes that several operators, folding and lowering share. All of them throw refusal.
#pragma once

#include <cstdint>
#include <vector>

#include "berth/op/kernels.hpp"
#include "op/request.hpp"

namespace berth::op {

// Returns `axis` counted from the front; refuses one out of range, as any is of a scalar.
[[nodiscard]] std::size_t axis_of(std::int64_t axis, std::int64_t rank);
[[nodiscard]] std::size_t axis_of(const request& q, std::int64_t fallback, std::int64_t rank);
[[nodiscard]] shape broadcast(const shape& a, const shape& b);
// Returns how many dimensions of 1 input 1 of an element-wise operator lacks behind its own to broadcast as it does
// today. Before opset 7 it lies along input 0's dimensions from "axis" on, and a slope along the channels.
[[nodiscard]] std::size_t trailing_ones(const request& q);
[[nodiscard]] shape concatenated(const request& q);
// Returns the shape after Reshape, Flatten, Squeeze or Unsqueeze; Identity and Dropout keep it.
[[nodiscard]] shape reshaped(const request& q);
// Returns Transpose's order of dimensions.
[[nodiscard]] std::vector<std::size_t> permutation(const request& q);

struct slicing {
  shape result;
  std::vector<std::int64_t> start, step;  // per dimension; steps may be below 0
};
[[nodiscard]] slicing sliced(const request& q);
// Returns the sizes of Split's outputs along its axis.
[[nodiscard]] std::vector<std::int64_t> split_sizes(const request& q);
// Returns the dimensions a reduction runs over, ascending. Empty only if the operator does nothing.
[[nodiscard]] std::vector<std::size_t> reduced_axes(const request& q, std::size_t axes_input = 1);
[[nodiscard]] shape reduced(const shape& from, const std::vector<std::size_t>& axes, bool keep);
// Returns Pad's amounts: rank begins, then rank ends. Below 0 it crops.
[[nodiscard]] std::vector<std::int64_t> paddings(const request& q);
// Returns the window of Conv or a pool over an input of this shape; `kernel` from the weights (Conv) or empty.
[[nodiscard]] window window_of(const request& q, const shape& from, shape kernel);
// Returns the shape of the window's results, with `channels` channels.
[[nodiscard]] shape windowed(const request& q, const shape& from, std::int64_t channels, const window& w);
// ConvTranspose's window, its pads cut off the result, and the result's shape.
struct spreading {
  window over;
  shape result;
};
[[nodiscard]] spreading spreading_of(const request& q);
[[nodiscard]] shape product(const shape& a, const shape& b);

}  // namespace berth::op
