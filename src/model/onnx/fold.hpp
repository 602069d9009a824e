// Constant folding: what a node computes when all its inputs are known, for the operators that shape arithmetic uses.
#pragma once

#include <optional>
#include <vector>

#include "berth/model/description.hpp"
#include "model/allowance.hpp"

namespace berth::model {

// The node's only output, or nothing where this operator (or element type) is not folded. `inputs` has an entry per
// input of the node, null for those left out; what is made is taken from `room`. Integers wrap around. Throws
// input_error where the node contradicts itself.
[[nodiscard]] std::optional<tensor> fold(const description& m, const node& n, const std::vector<const tensor*>& inputs,
                                         allowance& room);

// The constant's values, whatever integer type it has. Throws input_error naming `what` for other types.
[[nodiscard]] std::vector<std::int64_t> integers(const description& m, const std::string& what, const tensor& t);
// A constant of int64 values.
[[nodiscard]] tensor integer_tensor(shape s, const std::vector<std::int64_t>& values);
// The f32 values of a constant of type f32.
[[nodiscard]] std::vector<float> floats(const description& m, const std::string& what, const tensor& t);
[[nodiscard]] tensor float_tensor(shape s, const std::vector<float>& values);

}  // namespace berth::model
