// The shadow verifier: replays a graph on symbolic memory and proves that every read finds its producer's bytes.
//
// It works on offsets alone and shares no code with liveness or planning, so it can check any plan, also one from a
// file. One lane: an interval map of the arena says which value owns which bytes. A node reads its operands, then
// writes its results. Several lanes: every two values (and workspaces) that share a byte must be ordered, by vector
// clocks over all nodes.
//
// It checks:
// * Every place is inside the arena.
// * The bytes that a node reads were written, by their producer, and not overwritten since.
// * Results and workspaces of a node lie clear of each other and of its operands. A result that reuses a whole operand
//   in place is exempt.
// * Outputs and states are intact at the end.
// * Separated values are apart.
// * Offsets satisfy the alignment.
//
// O((values + nodes + edges) log fragments) for one lane. Several lanes add O((nodes + edges) x lanes).
#pragma once
#pragma GCC visibility push(default)

#include "berth/graph/fault.hpp"
#include "berth/graph/graph.hpp"

namespace berth {

struct graph_plan;

// Returns the first read that would go wrong under `p` (kind `clobbered`), or a fault of kind none. Contract: p's
// vectors are as long as the graph's, its rules are valid (granularity >= 1), and no footprint exceeds 64 bits.
[[nodiscard]] graph_fault verify_bytes(const graph& g, const graph_plan& p);

}  // namespace berth
#pragma GCC visibility pop
