// The offsets taken, section by section: a segment tree over sections whose nodes hold merged intervals.
//
// A tree node keeps two sorted lists of disjoint intervals. `whole` has those that an item covering all sections of the
// node takes; `any` has those taken in at least one of them. An item must avoid the union of `any` over the O(log n)
// tree nodes that tile its sections, and of `whole` over their ancestors. First and best fit leapfrog through these
// lists; no conflict graph is ever built. Merged lists stay short where packing is dense.
#pragma once

#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

class occupancy {
 public:
  explicit occupancy(const instance& in);

  // Forgets all items.
  void clear();

  // Puts item i at `offset`.
  void insert(std::uint32_t i, units offset);

  // Returns the lowest free aligned offset for item i from `from` on.
  [[nodiscard]] units find(std::uint32_t i, units from = 0);

  // Returns whether item i may lie at `offset`.
  [[nodiscard]] bool is_free(std::uint32_t i, units offset);

  [[nodiscard]] units offset(std::uint32_t i) const noexcept { return offsets_[i]; }
  [[nodiscard]] const std::vector<units>& offsets() const noexcept { return offsets_; }

  // Returns how many intervals were looked at so far.
  [[nodiscard]] std::uint64_t looks() const noexcept { return looks_; }

 private:
  struct taken {
    units lo;
    units hi;
  };
  using taken_list = std::vector<taken>;
  struct tree_node {
    taken_list whole;
    taken_list any;  // of all that `any` of its children has, and `whole`
  };
  struct cursor {
    const taken* at;
    const taken* end;
    units height;  // of the item there
  };

  struct linked {
    units height;  // of the item under it
    taken at;
  };

  void collect(std::uint32_t i);
  void add_cursor(const taken_list& list, units height);
  [[nodiscard]] units lift(units x, units alignment);

  const instance& in_;
  std::uint32_t leaves_ = 1;
  std::vector<tree_node> tree_;  // a heap: the root is 1
  std::vector<units> offsets_;   // by item; no_offset where not inserted
  std::vector<cursor> cursors_;
  std::vector<linked> linked_;
  std::vector<taken> merged_;
  std::vector<std::uint32_t> touched_;  // tree nodes that are not empty
  std::uint64_t looks_ = 0;
};

}  // namespace berth::plan
