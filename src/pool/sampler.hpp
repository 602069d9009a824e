// Samples one call in so many on average, at random distances, so that no pattern of calls is always missed.
#pragma once

#include <algorithm>
#include <cstdint>

namespace berth::detail {

// The sampler of one thread. Marsaglia's xorshift.
class sampler {
 public:
  constexpr explicit sampler(std::uint32_t seed) noexcept : random_{0x9e3779b97f4a7c15U * (std::uint64_t{seed} + 1)} {}

  // Returns the number of calls to skip before the next sample.
  [[nodiscard]] std::uint32_t draw(std::uint32_t every) noexcept {
    return static_cast<std::uint32_t>(next() % (2 * std::uint64_t{every} - 1));
  }
  // Returns the same for a thread that begins to count in the middle of a distance. A random moment seldom falls into a
  // short distance, and only the rest of it remains. Otherwise the first requests would be sampled half as often as
  // others.
  [[nodiscard]] std::uint32_t draw_first(std::uint32_t every) noexcept {
    const std::uint32_t one = draw(every);
    return std::min(one, static_cast<std::uint32_t>(next() % (2 * std::uint64_t{every})));
  }
  // Decides each call by itself, so that guards with different shares can use the same thread's sampler.
  [[nodiscard]] bool take(std::uint32_t every) noexcept { return every <= 1 || next() * every >> 32 == 0; }

 private:
  // Returns 32 random bits.
  [[nodiscard]] std::uint64_t next() noexcept {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ >> 32;
  }

  std::uint64_t random_;
};

[[nodiscard]] sampler& this_threads_sampler() noexcept;

}  // namespace berth::detail
