// Arithmetic on strides (in bytes): dense layouts, and views of a layout.
#pragma once

#include <optional>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/model/description.hpp"
#include "op/request.hpp"

namespace berth::model {

using op::is_row_major;
using op::row_major;
using op::strides;

// Returns whether the elements of `s` lie alike under both. The stride of a dimension of size 1 says nothing.
[[nodiscard]] bool same_layout(const shape& s, const strides& a, const strides& b);
[[nodiscard]] bool is_channels_last(const tensor_type& t);
// Returns whether the tensor fills its bytes without a gap, in any order of dimensions.
[[nodiscard]] bool is_dense(const tensor_type& t);
// Returns the strides under which t's bytes, unmoved, have the shape `to`; nothing if no strides do.
[[nodiscard]] std::optional<strides> reshaped_strides(const tensor_type& t, const shape& to);
// Returns the bytes from the first element to the end of the last. An empty tensor takes one element's, for an address.
[[nodiscard]] bytes extent(const shape& s, const strides& by, element type = element::f32);
[[nodiscard]] tensor_type dense(shape s, strides by, element type = element::f32);
[[nodiscard]] strides channels_last(const shape& s, element type);
// Brings a row-major constant's data into a dense layout.
[[nodiscard]] std::vector<std::byte> laid_out(const tensor& t, const strides& to);

}  // namespace berth::model
