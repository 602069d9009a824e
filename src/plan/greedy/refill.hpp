// A beam over skylines that places some items of a layout again around those that stay.
//
// A state is one height for each section and the set of items placed. A step places one item into the lowest segment;
// where none fits, the segment rises to its lower neighbour, and that room is lost. A section's height, its load to
// place and the items that stay above it bound the top from below. States at the limit are dropped. The order of states
// is a random mixture of five measures (refill_weights). All scores are whole numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/model/instance.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

struct refill_weights {
  int squarings = 3;       // the potential of a section is its bound over the instance's, to the power 2^squarings
  std::int64_t steps = 0;  // of each end of the item that leaves a step, in 2^-20
  std::int64_t area = 0;   // of the item's share of the whole area
  std::int64_t noise = 1;  // at random, less than this
};

class refill {
 public:
  // Contract: has_lifetimes_only(in), no alignments, and twice `bound`, the height of the tallest section, below 2^30.
  refill(const instance& in, units bound);

  // Places the items that `stays` does not mark, so that all end below `limit`. Returns false, with the offsets as they
  // were, if `width` states find nothing or the wait is over.
  bool run(std::vector<units>& offsets, const std::vector<char>& stays, std::size_t width, units limit,
           const refill_weights& by, std::uint64_t& random, const patience& wait);

 private:
  using height = std::int32_t;
  static constexpr height high = height{1} << 30;

  struct state {
    std::vector<height> h;     // by section; high: nothing is left to place there
    std::vector<height> left;  // load of it that is not placed
    std::vector<height> ceil;  // bottom of the next item that stays
    std::vector<height> rest;  // load of those above
    std::vector<std::uint64_t> used;
    height lb = 0;
    std::int64_t potential = 0;
    std::uint64_t hash = 0;
    std::uint32_t last = no_item;  // step
  };
  struct step {
    std::uint32_t before, item;
    height at;
  };
  struct child {
    std::int64_t score;
    std::uint32_t from, item;
    height at;
    std::uint64_t hash;
  };
  struct span_of_sections {
    std::uint32_t first, last;
    height size;
  };

  [[nodiscard]] std::int64_t potential(height v) const;
  [[nodiscard]] bool lowest(const state& s, std::uint32_t& a, std::uint32_t& b) const;
  void settle(state& s, std::uint32_t t) const;
  bool raise(state& s, std::uint32_t a, std::uint32_t b, height limit) const;
  void place(state& s, std::uint32_t i, height at) const;
  [[nodiscard]] bool fits(const state& s, std::uint32_t i, std::uint32_t a, std::uint32_t b, height at) const;
  void offer(const state& s, std::uint32_t from, std::uint32_t a, std::uint32_t b, std::uint64_t& random);
  bool offer_at_lowest(state& s, std::uint32_t from, height limit, std::uint64_t& random);
  std::size_t begin(const std::vector<units>& offsets, const std::vector<char>& stays, height limit);
  void expand(std::size_t live, std::size_t width, height limit, std::uint64_t& random);
  std::size_t choose(std::size_t width);

  const std::uint32_t sections_;
  const height bound_;
  std::vector<span_of_sections> items_;
  std::vector<std::uint64_t> names_;  // random, by item
  refill_weights by_;
  std::vector<std::vector<std::uint32_t>> starts_, ends_;        // items to place, by section
  std::vector<std::vector<std::pair<height, height>>> staying_;  // by section, in order
  std::vector<step> steps_;
  std::vector<state> now_, next_, raised_;
  std::size_t raised_count_ = 0;
  std::vector<child> children_;
  std::vector<std::uint64_t> seen_;
  std::uint64_t looks_ = 0;
};

}  // namespace berth::plan
