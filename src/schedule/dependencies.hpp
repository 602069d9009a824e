// Which node must run before which, so that every read sees what it sees in the given order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "berth/graph/structure.hpp"
#include "berth/schedule/verify.hpp"

namespace berth::schedule {

// By node: the nodes that must run before it, sorted. A reader comes behind the producer; a node that writes through a
// view keeps its place among all that touch the same bytes of the root (every pair of which one writes); nodes in
// `keep`, and those without results, keep the given order among themselves; pairs are kept. O(nodes + edges + accesses
// x writings of a root); where that product exceeds 2^24, as though all its accesses touched the same bytes.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> dependencies(const graph_structure& g,
                                                                   std::span<const std::uint32_t> keep,
                                                                   std::span<const node_pair> pairs = {});

}  // namespace berth::schedule
