// The live buffers of a sweep over time with the gaps between them: a value that a particle search can copy.
//
// The sweep knows every death in advance. A buffer goes to the gap whose neighbour dies when it does, so that holes
// join later. A tight gap is better than a wide one. A gap that does not raise the top is better than any that does.
// Scores are whole numbers, so that they are the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

// A buffer in the order of a sweep.
struct passed {
  std::uint32_t item = 0;
  std::uint32_t birth = 0, death = 0;
  units size = 0, alignment = 1;
};

// The preferences of a pass, in parts of 256.
struct preference {
  std::int64_t waste = 768;  // of leaving a part of a gap, beside a neighbour that dies a mean life apart
  std::int64_t noise = 0;    // at random, more
  std::int64_t mean_life = 1;
};

class frontier {
 public:
  frontier() {
    cells_.push_back({0, none, none, none});
    add_gap(0, unbounded, none);
  }

  [[nodiscard]] units top() const noexcept { return top_; }
  [[nodiscard]] std::size_t gaps() const noexcept { return gaps_.size(); }
  [[nodiscard]] std::uint64_t looks() const noexcept { return looks_; }

  // Puts a buffer right above all others, the gaps of alignment apart. Returns the offset. Contract: no add() before.
  units stack(const passed& b);

  // Frees what died, then puts the buffer into the gap of the least score. Returns the offset. O(gaps).
  units add(const passed& b, const preference& by, std::uint64_t& random);

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct cell {  // a live buffer; cell 0 is the floor
    units end = 0;
    std::uint32_t death = none;
    std::uint32_t below = none;  // its neighbours in address order
    std::uint32_t above = none;
    std::uint32_t gap = none;  // between it and the one above, if any
  };
  struct gap {
    units lo = 0, hi = 0;
    std::uint32_t under = 0;  // the cell below it
    std::uint32_t death_below = none, death_above = none;
  };
  struct dying {
    std::uint32_t death, cell;
  };

  void add_gap(std::uint32_t under, units hi, std::uint32_t death_above);
  void drop_gap(std::uint32_t under);
  void free_dead(std::uint32_t now);
  void free(std::uint32_t at);
  units put(std::uint32_t gap, units at, const passed& b);

  std::vector<cell> cells_;
  std::vector<gap> gaps_;
  std::vector<std::uint32_t> spare_;
  std::vector<dying> dying_;  // a heap, the earliest first
  units top_ = 0;
  std::uint64_t looks_ = 0;
};

}  // namespace berth::plan
