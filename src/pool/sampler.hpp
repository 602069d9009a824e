// One call in so many in the mean, at random distances, so that no pattern of calls is always missed.
#pragma once

#include <cstdint>

namespace berth::detail {

// Of one thread. Marsaglia's xorshift.
class sampler {
 public:
  constexpr explicit sampler(std::uint32_t seed) noexcept : random_{0x9e3779b97f4a7c15U * (std::uint64_t{seed} + 1)} {}

  // How many are passed over before the next.
  [[nodiscard]] std::uint32_t draw(std::uint32_t every) noexcept {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<std::uint32_t>((random_ >> 32) % (2 * std::uint64_t{every} - 1));
  }
  // The first call is taken.
  [[nodiscard]] bool take(std::uint32_t every) noexcept {
    if (every <= 1) return true;
    if (left_ != 0) {
      --left_;
      return false;
    }
    left_ = draw(every);
    return true;
  }

 private:
  std::uint64_t random_;
  std::uint32_t left_ = 0;
};

[[nodiscard]] sampler& this_threads_sampler() noexcept;

}  // namespace berth::detail
