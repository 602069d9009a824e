// The nodes that must run before others, so that every read sees the same bytes as in the given order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/schedule/verify.hpp"

namespace berth::schedule {

// Returns, by node, the nodes that must run before it, sorted.
// * A reader comes behind the producer.
// * A node that writes through a view keeps its place among all nodes that touch the same bytes of the root. This holds
//   for every pair of which one writes.
// * Nodes in `keep`, and those without results, keep the given order among themselves.
// * Pairs are kept.
//
// O(nodes + edges + accesses x writings of a root). If that product exceeds 2^24, all accesses count as touching the
// same bytes.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> dependencies(const graph_structure& g,
                                                                   std::span<const std::uint32_t> keep,
                                                                   std::span<const node_pair> pairs = {});

}  // namespace berth::schedule
