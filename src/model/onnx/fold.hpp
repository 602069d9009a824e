// Constant folding: computes a node with known inputs by the table's own kernels.
#pragma once

#include <vector>

#include "berth/model/description.hpp"
#include "model/allowance.hpp"

namespace berth::model {

// Returns the content of a Constant node. Throws input_error if that is none of the kinds read here.
[[nodiscard]] tensor constant_of(const description& m, const node& n);

// Returns the node's results, or nothing if it waits for values of run time, or takes more than linear time. Takes the
// bytes it reads and makes from `room`. Throws input_error or op::refusal if the node contradicts itself.
[[nodiscard]] std::vector<tensor> fold(const description& m, const node& n, const op::request& q,
                                       const std::vector<tensor_type>& results, allowance& room);

[[nodiscard]] std::vector<float> floats(const description& m, const std::string& what, const tensor& t);
[[nodiscard]] tensor float_tensor(shape s, const std::vector<float>& values);

}  // namespace berth::model
