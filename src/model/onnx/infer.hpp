// Shape inference: the type of every value of a model, with what is constant computed on the way.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "berth/model/description.hpp"
#include "berth/op/operator.hpp"
#include "model/allowance.hpp"

namespace berth::model {

using value_types = std::unordered_map<std::string, value_info>;

// Folds what is constant into m.constants, removes those nodes and nodes whose results nobody uses, and returns the
// type of every value that is left. What folding reads and makes is taken from `room`. Throws input_error: an operator
// that the table (berth/op/operator.hpp) has not, shapes that do not fit. `widen`: convolutions and matrix products of
// halves become ones of f32 between casts, since the library has fast kernels for those alone.
[[nodiscard]] value_types infer(description& m, allowance& room, bool widen);

// The node as the table of operators asks for it: row-major inputs of the types found so far, and the constants among
// them. Throws input_error where an input comes from no earlier node.
[[nodiscard]] op::request request_of(const description& m, const node& n, const value_types& types);

}  // namespace berth::model
