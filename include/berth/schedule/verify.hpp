// verify_steps: an independent check of a list of steps. It solves nothing. With the code that made the steps it shares
// only their numbering (meaning_of()).
//
// It replays the given graph in its own order, byte range by byte range. It records the contents that each node finds
// in each operand: which node wrote which bytes. Then it replays the steps. A copy out records the contents of that
// moment, and a copy in restores them. Every run of a node must find the recorded contents. At the end, so must the
// readers of outputs, states and externals. By induction every node then computes the same results.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "berth/graph/graph.hpp"

namespace berth::schedule {

using node_pair = std::pair<std::uint32_t, std::uint32_t>;

struct step_violation {
  const char* rule = "";   // static text: what is wrong
  std::uint32_t step = 0;  // the step; the number of steps if the end is wrong
  std::uint32_t node = UINT32_MAX;
  std::uint32_t value = UINT32_MAX;  // the operand or output whose contents differ
};

// Returns the first violation, or nothing. Violations are:
// * A number that is no step.
// * A copy of a view, of a state or of a value outside the arena.
// * A copy out before the value exists, or a copy in before its copy out.
// * A node that never runs.
// * A node that runs again although it is in `keep` or `once`, writes through a view or has no results.
// * An operand or output with other contents.
// * Nodes of `keep`, or without results, in another order among themselves.
// * The second node of a pair in `before` if the first has not run.
//
// It does not check memory: verify_plan() does, for rewrite()'s graph. Contract: g.fault().ok(). O((nodes + steps +
// edges) log fragments).
[[nodiscard]] std::optional<step_violation> verify_steps(const graph& g, std::span<const std::uint32_t> steps,
                                                         std::span<const std::uint32_t> keep = {},
                                                         std::span<const node_pair> before = {},
                                                         std::span<const std::uint32_t> once = {});

}  // namespace berth::schedule
#pragma GCC visibility pop
