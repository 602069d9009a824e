// Large sets, made from seeds.
#pragma once

#include <cstdint>
#include <span>

#include "berth/plan/problem.hpp"

namespace berth_bench {

struct large_kind {
  const char* name;
  berth::plan::problem (*make)(std::uint32_t buffers, std::uint32_t seed);
};

// Returns the kinds of sets:
// * mixture: lives and sizes over many orders of magnitude.
// * even_hundred and even_thousand: similar everywhere, so many alive.
// * inference and training: blocks of a transformer, forwards, and with the way back.
[[nodiscard]] std::span<const large_kind> large_kinds();

}  // namespace berth_bench
