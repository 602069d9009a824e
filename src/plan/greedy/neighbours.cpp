#include "plan/greedy/neighbours.hpp"

#include <algorithm>
#include <numeric>

namespace berth::plan {

neighbours::neighbours(const instance& in)
    : in_{in},
      may_repeat_{!in.links.empty() ||
                  std::any_of(in.items.begin(), in.items.end(),
                              [](const item& it) { return it.ranges_last - it.ranges_first > 1; })},
      starts_at_(in.sections + std::size_t{2}, 0) {
  std::uint64_t total = 0;
  for (const section_range& r : in.ranges) {
    total += r.last - r.first;
    ++starts_at_[r.first + std::size_t{2}];
  }
  std::partial_sum(starts_at_.begin(), starts_at_.end(), starts_at_.begin());
  by_start_.resize(in.ranges.size());
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    for (const section_range& r : in.ranges_of(in.items[i])) by_start_[starts_at_[r.first + std::size_t{1}]++] = {r, i};
  }
  if (in.ranges.empty()) return;
  // As far apart as ranges are long in the mean: then both lists are about as long.
  step_ = static_cast<std::uint32_t>(total / in.ranges.size() + 1);
  across_at_.assign(in.sections / step_ + std::size_t{3}, 0);
  const auto each_step = [&](auto&& take) {
    for (const live& e : by_start_) {
      for (std::uint32_t k = e.at.first / step_ + 1; k * step_ < e.at.last; ++k) take(k, e);
    }
  };
  each_step([&](std::uint32_t k, const live&) { ++across_at_[k + std::size_t{2}]; });
  std::partial_sum(across_at_.begin(), across_at_.end(), across_at_.begin());
  across_.resize(across_at_.back());
  each_step([&](std::uint32_t k, const live& e) { across_[across_at_[k + std::size_t{1}]++] = e; });
}

}  // namespace berth::plan
