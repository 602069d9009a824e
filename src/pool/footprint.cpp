#include "pool/footprint.hpp"

namespace berth::detail {

bool footprint::note(const miss& m) noexcept {
  since_flush_ += m.requests;
  credit_ = std::min(credit_ + static_cast<std::int64_t>(m.requests) + miss_earns, most_credit);
  if (m.regretted) {
    credit_ -= regret;
    ++regrets_;
  }
  asked_ += m.asked;
  rounded_ += m.rounded;
  const bool ends = ++misses_ % window == 0;
  if (ends || (misses_ & (misses_ - 1)) == 0) note_rounding();
  const bytes alive = m.alive + (m.alive >> 8) * rounding_;
  if (ends) {
    std::rotate(peaks_.begin(), peaks_.end() - 1, peaks_.end());
    peaks_.front() = 0;
  }
  peaks_.front() = std::max(peaks_.front(), alive);
  recent_ = ends ? std::ranges::max(peaks_) : std::max(recent_, alive);
  return ends;
}

void footprint::note_rounding() noexcept {
  constexpr bytes most_rounding = 1 << 14;
  rounding_ = asked_ == 0 ? 0 : std::min(((rounded_ - asked_) << 8) / asked_, most_rounding);
  asked_ /= 2;
  rounded_ /= 2;
}

bool footprint::flush_is_due() noexcept {
  if (!needed_) {
    needed_ = true;
    const bool in_vain = 2 * regrets_ >= flushed_;
    patience_ = in_vain ? std::min(2 * patience_, most_patience) : std::max(patience_ / 2, least_patience);
  }
  return since_flush_ >= patience_ * std::max<std::uint64_t>(flushed_, 16);
}

void footprint::note_flush(std::uint64_t blocks) noexcept {
  since_flush_ = 0;
  flushed_ = blocks;
  regrets_ = 0;
  needed_ = false;
}

}  // namespace berth::detail
