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
inline bool advance(place& at, const std::int64_t* sizes, std::size_t rank) noexcept {
  for (std::size_t d = rank; d-- > 0;) {
    if (++at[d] < sizes[d]) return true;
    at[d] = 0;
  }
  return false;
}
inline bool advance(place& at, const shape& sizes) noexcept {
  return advance(at, sizes.data(), sizes.size());
}

}  // namespace berth::op
