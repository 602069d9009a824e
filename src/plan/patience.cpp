#include "plan/patience.hpp"

#include <algorithm>

#include "core/countable.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

using clock = std::chrono::steady_clock;

patience::patience(const options& o) : stop_{o.stop} {
  if (!o.deadline_s) return;
  const auto given = detail::countable(std::chrono::duration<double>{*o.deadline_s});
  until_ = clock::now() + std::chrono::duration_cast<clock::duration>(given);
}

patience patience::of_looks(std::uint64_t looks) {
  patience out;
  out.most_looks_ = looks;
  return out;
}

patience patience::for_looks(std::uint64_t looks) const {
  patience out = of_looks(looks);
  out.outer_ = this;
  return out;
}

std::optional<clock::time_point> patience::deadline() const noexcept {
  const auto outer = outer_ != nullptr ? outer_->deadline() : std::nullopt;
  return outer && until_ ? std::min(*outer, *until_) : outer ? outer : until_;
}

patience patience::for_half() const {
  patience out;
  out.outer_ = this;
  const auto now = clock::now();
  if (const auto end = deadline()) out.until_ = *end > now ? now + (*end - now) / 2 : *end;
  return out;
}

bool patience::over(std::uint64_t looks) const {
  looks_ += looks;
  if (outer_ != nullptr && outer_->over(looks)) return over_ = true;
  if (over_) return true;
  if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) return over_ = true;
  if (looks_ < next_reading_) return false;
  next_reading_ = looks_ + policy::looks_between_readings;
  return over_ = looks_ > most_looks_ || (until_ && clock::now() >= *until_);
}

bool patience::is_due() const {
  if (outer_ != nullptr && outer_->is_due()) return over_ = true;
  if (over_) return true;
  return over_ = (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) || (until_ && clock::now() >= *until_);
}

std::uint64_t patience::looks_left() const noexcept {
  const std::uint64_t own = most_looks_ - std::min(looks_, most_looks_);
  return outer_ != nullptr ? std::min(own, outer_->looks_left()) : own;
}

}  // namespace berth::plan
