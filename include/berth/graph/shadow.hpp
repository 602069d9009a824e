// The shadow verifier: replays a graph on symbolic memory and proves that every read finds its producer's bytes.
//
// Works on offsets alone and shares no code with liveness or planning, so that it can judge any plan, also one from
// a file. One lane: an interval map of the arena says which value owns which bytes; a node reads its operands, then
// writes its results. Several lanes: every two values (and workspaces) that share a byte must be ordered, by vector
// clocks over all nodes.
//
// Checked: every place is inside the arena; what a node reads was written, by its producer, and not overwritten
// since; results and workspaces of a node lie clear of each other and of its operands, but for a result that takes
// over a whole operand in place; outputs and states are intact at the end; separated values are apart. Whether the
// offsets satisfy an alignment is checked here too.
//
// O((values + nodes + edges) log fragments) for one lane; for several, O((nodes + edges) x lanes) besides.
#pragma once
#pragma GCC visibility push(default)

#include "berth/graph/fault.hpp"
#include "berth/graph/graph.hpp"

namespace berth {

struct graph_plan;

// The first read that would go wrong under `p` (kind `clobbered`), or a fault of kind none. Contract: p's vectors
// are as long as the graph's, its rules mean something (granularity >= 1), and no footprint exceeds 64 bits.
[[nodiscard]] graph_fault verify_bytes(const graph& g, const graph_plan& p);

}  // namespace berth
#pragma GCC visibility pop
