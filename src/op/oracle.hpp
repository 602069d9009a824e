// The operators computed again by loops over indices that share nothing with the kernels. They serve the operators and
// types that the test framework cannot judge by the same kernel in a wider type (integers, f64).
#pragma once

#include <optional>
#include <vector>

#include "berth/op/operator.hpp"

namespace berth::op {

// The elements of the first result, row-major, as its type holds them; nothing where the operator is none of those
// here, or its attributes are. `values`: by operand, row-major. The request is one that infer() accepts.
[[nodiscard]] std::optional<std::vector<double>> expected_of(const request& q,
                                                             const std::vector<std::vector<double>>& values);

}  // namespace berth::op
