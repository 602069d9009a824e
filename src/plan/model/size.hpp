// Sizes of buffers of a problem with dimensions.
#pragma once

#include <span>

#include "berth/core/result.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

// Checks the bounds of the dimensions and the sizes at the largest values. The error is as validate()'s.
[[nodiscard]] result<void> validate_sizes(const problem& p);

// Returns the buffer's size at these values. Contract: validate() passed; nothing overflows then.
[[nodiscard]] bytes size_of(const buffer& b, std::span<const bytes> values);

}  // namespace berth::plan
