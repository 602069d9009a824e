// Large problems from a seed, without RapidCheck.
#pragma once

#include "berth/plan/problem.hpp"
#include "plan/mix.hpp"

namespace berth::plan {

class numbers {
 public:
  explicit numbers(std::uint64_t seed) : state_{mix(seed)} {}
  std::uint64_t below(std::uint64_t n) { return mix(state_ += 0x9e3779b97f4a7c15U) % n; }

 private:
  std::uint64_t state_;
};

// Buffers of all sizes up to a mebibyte, one born a tick, of which about `alive` live together.
inline problem dense_set(std::uint32_t n, tick alive) {
  numbers from{n};
  problem p;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto lower = static_cast<tick>(i);
    const auto life = 1 + static_cast<tick>(from.below(static_cast<std::uint64_t>(2 * alive)));
    p.add({.size = 1 + from.below(1 << 20), .live = {lower, lower + life}});
  }
  return p;
}

}  // namespace berth::plan
