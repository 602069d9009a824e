// Liveness: which values are alive together, as a planning problem.
//
// The clock: tick 0 lies before the first node, node i runs at tick i + 1, and tick nodes() + 1 lies behind the last.
// An input lives from tick 0; a result from its node; either to its last reader, or to the end where it is an output.
// Reading, or writing through, a view is using its root. A result that nobody reads lives for its node alone. A
// workspace lives for its node. States are not in the problem: they are never shared, so that they lie side by side
// in front of the transient part. Constants and externals have no memory here.
//
// In-place: node n's result takes over operand k where the graph allows it (node_options::in_place), the operand's
// root is an input or a result, no output, and n is its last use. The two then are one buffer. A merge never raises
// the most bytes that are live at once, and lowers it where n runs at the peak; it also ties two values to one
// offset. `reuse::needed` keeps only the merges without which the peak would rise. Of several operands it is the one
// whose memory has been held longest.
//
// Several lanes (node::stream): a value is dead for a node only where all its uses happen before that node, by the
// order within lanes and by values handed over. Happens-before is kept as vector clocks (Mattern, "Virtual Time and
// Global States of Distributed Systems", 1989); the problem then names its conflicts pair by pair.
//
// Contract: g.fault().ok(). One lane: O(values + nodes + edges). L lanes: O(nodes L) and, for
// every buffer, O(L^2) for each earlier one that some lane may still meet (at worst all: where lanes hardly wait).
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

// The result of `node` takes over the memory of its operand at position `operand`.
struct take_over {
  std::uint32_t node = 0;
  std::uint32_t operand = 0;
  friend bool operator==(const take_over&, const take_over&) = default;
};

struct liveness {
  plan::problem problem;                    // buffers without names; their order is that of their births
  std::vector<std::uint32_t> buffer_of;     // by value; no_buffer: a state, outside the arena, or of no bytes
  std::vector<std::uint32_t> workspace_of;  // by node
  std::vector<take_over> in_place;
};

[[nodiscard]] liveness find_lifetimes(const graph_structure& g, const rules::placement& rules,
                                      reuse in_place = reuse::all);

}  // namespace berth
#pragma GCC visibility pop
