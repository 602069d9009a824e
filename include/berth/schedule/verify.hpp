// verify_steps: an independent check of a list of steps. It solves nothing, and of what made them it
// shares the numbering of steps only (meaning_of()).
//
// The given graph is replayed in its own order, byte range by byte range, and what each node finds in each operand is
// noted: which node wrote which bytes. Then the steps are replayed; what is copied out is noted as it is then, and what
// is copied in is that. Every run of a node must find the same; so must, in the end, whoever reads outputs, states and
// externals. By induction every node then computes what it computed.
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
  std::uint32_t step = 0;  // at which step; the number of steps where the end is wrong
  std::uint32_t node = UINT32_MAX;
  std::uint32_t value = UINT32_MAX;  // the operand or output that is not what it was
};

// The first violation, or nothing: a step that is none; a copy of a view, of a state or of what does not lie in the
// arena, out before it is there, or in before it has gone out; a node that does not run, or runs again although it is
// in `keep` or `once`, writes through a view or has no results; an operand or output of other contents; nodes of
// `keep`, or without results, in another order among themselves; the second node of a pair in `before` where the first
// has not run. Memory is not looked at: that is verify_plan()'s question, asked of rewrite()'s graph. Contract:
// g.fault().ok(). O((nodes + steps + edges) log fragments).
[[nodiscard]] std::optional<step_violation> verify_steps(const graph& g, std::span<const std::uint32_t> steps,
                                                         std::span<const std::uint32_t> keep = {},
                                                         std::span<const node_pair> before = {},
                                                         std::span<const std::uint32_t> once = {});

}  // namespace berth::schedule
#pragma GCC visibility pop
