// One call in so many in the mean, at random distances, so that no pattern of calls is always missed.
#pragma once

#include <algorithm>
#include <cstdint>

namespace berth::detail {

// Of one thread. Marsaglia's xorshift.
class sampler {
 public:
  constexpr explicit sampler(std::uint32_t seed) noexcept : random_{0x9e3779b97f4a7c15U * (std::uint64_t{seed} + 1)} {}

  // How many are passed over before the next.
  [[nodiscard]] std::uint32_t draw(std::uint32_t every) noexcept {
    return static_cast<std::uint32_t>(next() % (2 * std::uint64_t{every} - 1));
  }
  // The same for who begins to count, as one who comes at any moment would find it: a short distance is seldom come
  // upon, and the rest of one is shorter than it is. Else the first requests would be taken half as often as others.
  [[nodiscard]] std::uint32_t draw_first(std::uint32_t every) noexcept {
    const std::uint32_t one = draw(every);
    return std::min(one, static_cast<std::uint32_t>(next() % (2 * std::uint64_t{every})));
  }
  // Each call by itself, so that guards with different shares can ask the same thread's.
  [[nodiscard]] bool take(std::uint32_t every) noexcept { return every <= 1 || next() * every >> 32 == 0; }

 private:
  // Of 32 bits.
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
