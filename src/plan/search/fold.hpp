// Smaller instances for a capacity at which sections are full.
//
// Items that end between two full sections make room for exactly the items that begin there. One set of alike lifetimes
// may end, and one of the same height begin. Most likely the second set then lies at the place of the first. Each is
// stacked, and both become one clump. Clumps are folded again: a tiling by random cuts may end as one.
//
// A guess, not a proof: a layout of the clumps is one of the items, but the items may have others.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

class folding {
 public:
  // Folds items of one lifetime and no further constraint; nothing if there are others. A `seed` of 0 folds only what
  // sums force; any other chooses, and leaves some out. O(n log n) for few items a section boundary.
  folding(const instance& in, units capacity, std::uint64_t seed);

  [[nodiscard]] std::size_t clumps_left() const noexcept { return left_; }
  [[nodiscard]] instance folded() const;
  // Returns the offsets of the items, given those of the folded instance.
  [[nodiscard]] std::vector<units> unfold(const std::vector<units>& offsets) const;

 private:
  enum class kind : std::uint8_t { item, stack, row };
  struct clump {
    kind what;
    bool folded;  // into another
    std::uint32_t first;
    std::uint32_t last;  // sections [first, last)
    units size;
    std::vector<std::uint32_t> of;  // stack: upwards
  };
  struct set {  // clumps of one lifetime that begin or end at one boundary
    units size;
    std::uint32_t group;  // its lifetime's first in the sorted list
    std::uint32_t mask;
  };

  void add(clump b);
  void take(std::uint32_t b);
  [[nodiscard]] std::uint32_t stacked(const std::vector<std::uint32_t>& sorted, const set& s);
  [[nodiscard]] std::vector<set> sets_of(std::vector<std::uint32_t>& sorted) const;
  [[nodiscard]] bool fold_at(std::uint32_t boundary);
  [[nodiscard]] bool is_tight(std::uint32_t boundary) const { return tight_[boundary] != 0; }

  std::uint64_t seed_;
  std::size_t left_ = 0;
  std::vector<clump> clumps_;                       // of item i first
  std::vector<char> tight_;                         // by boundary b, between sections b - 1 and b: both are full
  std::vector<std::vector<std::uint32_t>> starts_;  // by boundary: clumps not folded yet
  std::vector<std::vector<std::uint32_t>> ends_;
  std::vector<std::uint32_t> due_;  // boundaries to be looked at
};

}  // namespace berth::plan
