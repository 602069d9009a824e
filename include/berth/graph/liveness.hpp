// Liveness: which values are alive together, as a planning problem.
//
// The clock: node i runs at tick i + 1. Tick 0 lies before the first node, and tick nodes() + 1 behind the last. An
// input lives from tick 0, a result from its node. Both live to their last reader, or to the end if they are outputs.
// Reading, or writing through, a view is using its root. An unread result lives for its node alone. A workspace lives
// for its node. States are not in the problem: they are never shared, so they lie side by side in front of the
// transient part. Constants and externals have no memory here.
//
// In-place reuse: node n's result may use the memory of operand k under these conditions:
// * The graph allows it (node_options::in_place).
// * The operand's root is an input or a result, but no output.
// * Node n is its last use.
//
// The two then are one buffer. A merge never raises the peak of live bytes, and lowers it if n runs at the peak. It
// also ties two values to one offset. `reuse::needed` keeps only the merges that lower the peak. If several operands
// qualify, it takes the one whose memory has been held longest.
//
// Several lanes (node::stream): a value is dead for a node only if all its uses happen before that node. Happens-before
// follows from the order within lanes and from passed values. It is kept as vector clocks (Mattern, "Virtual Time and
// Global States of Distributed Systems", 1989). The problem then names its conflicts pair by pair.
//
// Contract: g.fault().ok(). Cost:
// * One lane: O(values + nodes + edges).
// * With L lanes: O(nodes L) and, for every buffer, O(L^2) for each earlier one that some lane may still meet. The
//   worst case is all of them, if lanes hardly wait.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/plan/problem.hpp"
#include "berth/rules/placement.hpp"

namespace berth {

inline constexpr std::uint32_t no_buffer = UINT32_MAX;

enum class reuse : std::uint8_t { all, needed, none };

// The result of `node` reuses the memory of its operand at position `operand`.
struct take_over {
  std::uint32_t node = 0;
  std::uint32_t operand = 0;
  friend bool operator==(const take_over&, const take_over&) = default;
};

struct liveness {
  plan::problem problem;                    // buffers without names, in the order of their births
  std::vector<std::uint32_t> buffer_of;     // by value; no_buffer: a state, outside the arena, or of no bytes
  std::vector<std::uint32_t> workspace_of;  // by node
  std::vector<take_over> in_place;
};

[[nodiscard]] liveness find_lifetimes(const graph_structure& g, const rules::placement& rules,
                                      reuse in_place = reuse::all);

// Gives the problem the dimensions of the graph, and its buffers their sizes in them. Contract: `live` is of
// g.structure().
void set_dimensions(const graph& g, liveness& live);

}  // namespace berth
#pragma GCC visibility pop
