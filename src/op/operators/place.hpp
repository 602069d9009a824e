// A walk over the spatial dimensions of a result or of a window, last dimension first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "op/request.hpp"

namespace berth::op {

// Indices in the dimensions behind batch and channel.
using place = std::array<std::int64_t, most_rank - 2>;

// The next place in a box of these sizes; false behind the last.
inline bool advance(place& at, const shape& sizes) noexcept {
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (++at[d] < sizes[d]) return true;
    at[d] = 0;
  }
  return false;
}

}  // namespace berth::op
