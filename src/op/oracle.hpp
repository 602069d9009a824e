// The operators computed again by loops over indices that share nothing with the kernels. They serve the operators and
// types that the test framework cannot judge by the same kernel in a wider type (integers, f64).
#pragma once

#include <optional>
#include <vector>

#include "berth/op/operator.hpp"

namespace berth::op {

// Returns the elements of the first result, row-major, as its type holds them. Returns nothing if the operator or its
// attributes are not here. `values`: by operand, row-major. The request is one that infer() accepts.
[[nodiscard]] std::optional<std::vector<double>> expected_of(const request& q,
                                                             const std::vector<std::vector<double>>& values);

}  // namespace berth::op
