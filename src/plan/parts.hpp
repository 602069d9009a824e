// Parts of a problem: what is placed together, and the problem of one memory that some buffers make.
#pragma once

#include <span>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::plan {

// Buffers that share one base: an alias group, or a buffer alone.
struct unit {
  std::vector<index> members;
  std::vector<index> memories;  // where all of them may live, in the first member's order of preference
  bytes size = 0;               // the largest footprint
  bytes total = 0;              // the sum of the footprints
};

// In the order of their first members. Contract: validate() passed. O(n * memories).
[[nodiscard]] std::vector<unit> units_of(const problem& p);

// The problem of the buffers `members` (ascending) in memory m, without what concerns other memories and other
// buffers: one memory at most, no slabs, no penalties, no names. O(members + pairs of p).
[[nodiscard]] problem part_of(const problem& p, index m, std::span<const index> members);

}  // namespace berth::plan
