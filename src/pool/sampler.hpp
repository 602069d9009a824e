// One call in so many in the mean, at random distances, so that no pattern of calls is always missed.
#pragma once

#include <cstdint>

namespace berth::detail {

// Of one thread; the first call is taken. Marsaglia's xorshift.
class sampler {
 public:
  constexpr explicit sampler(std::uint32_t seed) noexcept : random_{0x9e3779b97f4a7c15U * (std::uint64_t{seed} + 1)} {}

  [[nodiscard]] bool is_due() const noexcept { return left_ == 0; }
  // Contract: none is due.
  void pass() noexcept { --left_; }
  [[nodiscard]] bool take(std::uint32_t every) noexcept {
    if (every <= 1) return true;
    if (!is_due()) {
      pass();
      return false;
    }
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    left_ = static_cast<std::uint32_t>((random_ >> 32) % (2 * std::uint64_t{every} - 1));
    return true;
  }

 private:
  std::uint64_t random_;
  std::uint32_t left_ = 0;
};

}  // namespace berth::detail
