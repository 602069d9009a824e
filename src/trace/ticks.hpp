// Ticks where numbers have 53 bits, as in JavaScript.
#pragma once

#include <cstdint>

#include "berth/trace/picture.hpp"

namespace berth::trace {

// The tick from which the picture's are counted, so that what lies far from 0 stays exact: 0 where all do.
[[nodiscard]] std::int64_t base_of(const picture& p);

// Exact, however far both are from 0.
[[nodiscard]] inline std::uint64_t ticks_since(std::int64_t base, std::int64_t tick) noexcept {
  return static_cast<std::uint64_t>(tick) - static_cast<std::uint64_t>(base);
}

}  // namespace berth::trace
