// Sizes of buffers of a problem with dimensions.
#pragma once

#include <span>

#include "berth/plan/problem.hpp"

namespace berth::plan {

// Returns the buffer's size at these values. Contract: validate() passed; nothing overflows then.
[[nodiscard]] bytes size_of(const buffer& b, std::span<const bytes> values);

}  // namespace berth::plan
