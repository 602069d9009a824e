// Parts of a problem: buffers placed together, and the problem of one memory for some buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::plan {

// Buffers that share one base: an alias group, or a buffer alone.
struct bundle {
  std::vector<index> members;
  std::vector<index> memories;  // where all of them may live, in the first member's order of preference
  bytes size = 0;               // the largest footprint
  bytes total = 0;              // the sum of the footprints
  bool abridged = false;        // not all of those memories are listed
};

// Returns the bundles in the order of their first members. If a million choices would be listed, buffers that name no
// memory get the cheapest that take them and a few others. `all` lists every choice. Contract: validate() passed. O(n +
// memories * log + choices).
[[nodiscard]] std::vector<bundle> bundles_of(const problem& p, bool all = false);

// Makes parts of one problem, which has to live as long.
class part_maker {
 public:
  // O(n + pairs of p).
  explicit part_maker(const problem& p);

  // Returns the problem of the buffers `members` (ascending) in memory m, without other memories and buffers. It has
  // one memory at most, no slabs, no penalties, no names. O(members + their pairs).
  [[nodiscard]] problem part(index m, std::span<const index> members);

 private:
  // The pairs that a problem lists, by their first buffer.
  struct listed {
    std::vector<std::uint32_t> first;  // into `others`; one more than buffers
    std::vector<index> others;
  };
  static listed list(const problem& p, const std::vector<pair>& pairs);
  void add(const listed& all, std::span<const index> members, std::vector<pair>& out) const;

  const problem& p_;
  std::vector<index> place_;  // by buffer: its place in the part being made
  std::vector<index> group_;  // by the group's number in p: its number in the part
  listed conflicts_, separations_;
};

// Returns one part.
[[nodiscard]] problem part_of(const problem& p, index m, std::span<const index> members);

}  // namespace berth::plan
