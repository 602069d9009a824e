// Which offsets are taken, section by section: a segment tree over sections whose nodes hold merged intervals.
//
// A tree node keeps two sorted lists of disjoint intervals: `whole`, taken throughout the node's sections by an item
// that covers them all, and `any`, taken in at least one of them. What an item of some range of sections must avoid is
// the union of `any` over the O(log n) tree nodes that tile the range and `whole` over their ancestors. First and best
// fit leapfrog through these lists; no conflict graph is ever built. Merged lists stay short where packing is dense.
#pragma once

#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

class occupancy {
 public:
  explicit occupancy(const instance& in);

  // Forgets all items.
  void clear();

  // Item i lies at `offset` from now on.
  void insert(std::uint32_t i, units offset);

  // The lowest free aligned offset for item i from `from` on, given the items inserted.
  [[nodiscard]] units find(std::uint32_t i, units from = 0);

  // Whether item i may lie at `offset`.
  [[nodiscard]] bool is_free(std::uint32_t i, units offset);

  [[nodiscard]] units offset(std::uint32_t i) const noexcept { return offsets_[i]; }
  [[nodiscard]] const std::vector<units>& offsets() const noexcept { return offsets_; }

  // How much was looked at so far, in intervals.
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
