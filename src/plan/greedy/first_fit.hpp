// First fit by neighbours: collects the placed items that conflict with one, and takes the lowest offset that none of
// them forbids. It serves every constraint that an instance can express. A list of all placed items in address order is
// faster up to some thousand items of one lifetime each. A pass by occupancy is cheaper than both if thousands are
// alive together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/greedy/greedy.hpp"
#include "plan/greedy/neighbours.hpp"

namespace berth::plan {

class first_fit {
 public:
  explicit first_fit(const instance& in);

  // Returns about what one pass takes, in looks.
  [[nodiscard]] std::uint64_t looks_a_pass() const noexcept { return looks_; }

  // Places the pinned items, then `items` in turn. Gives up, without offsets, once one ends at `limit` or above.
  [[nodiscard]] layout run(std::span<const std::uint32_t> items, units limit = unbounded);

  // Returns by item how many others it conflicts with.
  [[nodiscard]] std::vector<std::uint32_t> degrees() const;

 private:
  struct forbidden {
    units first, end;  // no offset in [first, end)
  };
  struct placed {
    units lo, end;
    std::uint32_t first, last;  // section
  };

  units lowest_free(std::uint32_t i);
  units lowest_free_in_list(std::uint32_t i);
  units place(std::uint32_t i);

  const instance& in_;
  const neighbours beside_;
  std::uint64_t looks_ = 0;
  std::vector<units> offsets_;  // by item; no_offset where it is not placed
  bool by_list_ = false;
  std::vector<placed> list_;  // in address order
  std::vector<forbidden> near_;
};

// Lowers `best` by first fit by size, area, birth, number of conflicts, death and time, and by size and area without
// regard to alignment. Stops before a pass that would exceed `most_looks`. Returns the looks taken.
std::uint64_t lower_by_orders(const instance& in, layout& best, units target, std::uint64_t most_looks,
                              const patience& wait);

}  // namespace berth::plan
