// Shape inference: the type of every value of a model; computes constants on the way.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "berth/model/description.hpp"
#include "berth/op/operator.hpp"
#include "model/allowance.hpp"

namespace berth::model {

using value_types = std::unordered_map<std::string, value_info>;

// Folds constant values into m.constants, and removes their nodes and those without a used result. Returns the type of
// every value that is left. Takes the bytes that folding reads and makes from `room`. Throws input_error: an operator
// outside the table (berth/op/operator.hpp), shapes that do not fit. `widen` makes convolutions and matrix products of
// halves ones of f32 between casts, since the library has fast kernels for those alone.
[[nodiscard]] value_types infer(description& m, allowance& room, bool widen);

// Returns the node's request to the table of operators: row-major inputs of the types found so far, and the constants
// among them. Throws input_error if an input comes from no earlier node.
[[nodiscard]] op::request request_of(const description& m, const node& n, const value_types& types);

}  // namespace berth::model
