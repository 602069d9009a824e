// The conflicts of items: ranges by the section in which they start, the ranges that live across some sections, and
// links. No pair is stored. O(ranges + sections).
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

class neighbours {
 public:
  explicit neighbours(const instance& in);

  // Returns about how much an item conflicts: its sections and links.
  [[nodiscard]] std::uint64_t life(std::uint32_t i) const {
    std::uint64_t sum = in_.links_of(in_.items[i]).size();
    for (const section_range& r : in_.ranges_of(in_.items[i])) sum += r.last - r.first;
    return sum;
  }

  // Returns whether each() may name a pair more than once.
  [[nodiscard]] bool may_repeat() const { return may_repeat_; }

  // Returns how many ranges and links each() goes through: it calls f no more often.
  [[nodiscard]] std::uint64_t gone_through(std::uint32_t i) const {
    const item& it = in_.items[i];
    std::uint64_t sum = it.links_last - it.links_first;
    for (const section_range& own : in_.ranges_of(it)) {
      const std::uint32_t k = own.first / step_;
      sum += across_at_[k + std::size_t{1}] - across_at_[k] + starts_at_[own.last] - starts_at_[k * step_];
    }
    return sum;
  }

  // Calls f(j, height of i under j, height of j under i).
  template <class F>
  void each(std::uint32_t i, F&& f) const {
    for (const section_range& own : in_.ranges_of(in_.items[i])) {
      const std::uint32_t k = own.first / step_;
      const auto meet = [&](const live& e) {
        if (e.at.last > own.first && e.item != i) f(e.item, own.height, e.at.height);
      };
      for (std::uint32_t at = across_at_[k]; at < across_at_[k + std::size_t{1}]; ++at) meet(across_[at]);
      for (std::uint32_t at = starts_at_[k * step_]; at < starts_at_[own.last]; ++at) meet(by_start_[at]);
    }
    for (const item_link& l : in_.links_of(in_.items[i])) f(l.other, l.height, l.other_height);
  }

 private:
  struct live {
    section_range at;
    std::uint32_t item = 0;
  };
  const instance& in_;
  const bool may_repeat_;
  std::vector<live> by_start_;
  std::vector<std::uint32_t> starts_at_;  // by section: the first in by_start_ that starts there or later
  std::uint32_t step_ = 1;                // sections
  std::vector<live> across_;              // what starts before a multiple of step_ and lives there
  std::vector<std::uint32_t> across_at_;  // by multiple
};

}  // namespace berth::plan
