// replan: a plan for a problem that has changed a little, with what can stay where it was.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <optional>
#include <span>

#include "berth/plan/solve.hpp"

namespace berth::plan {

struct replanned {
  plan layout;
  std::size_t moved = 0;  // buffers that have bytes and had an offset, and lie elsewhere now
  bytes moved_bytes = 0;  // and their sizes
  bool fewest = false;    // proved: no plan in an arena as small moves fewer
};

// Plans as solve() does and keeps every buffer at before[i] if the arena allows it; a new buffer has no such offset.
// The arena comes first: it is never above solve()'s by more than the tolerance. Then the number of buffers kept
// counts, whatever their sizes. Hints of the problem count only for new buffers. solve()'s rules choose each buffer's
// memory, and offsets are kept in that memory. A buffer in another memory or slab than `before_memory` or `before_slab`
// says counts as moved (by buffer; empty: unknown).
//
// The former plan is a candidate; if it no longer fits, its repair by ejection chains is one. A candidate wins if it
// moves fewer buffers and its arena is at most `tolerance` (0 to 1) above the new one. Shrinking a buffer so never
// raises the arena, and with a tolerance of 0.01 no buffer moves to save less than a hundredth.
//
// effort::fast tries once to keep all offsets and places the rest around them. Costs a solve() and the search for
// places; up to two with slabs, several memories, penalties or hints. Error: as solve(); or a span of another length.
[[nodiscard]] result<replanned> replan(const problem& p, std::span<const std::optional<bytes>> before,
                                       const options& o = {}, std::span<const index> before_memory = {},
                                       std::span<const index> before_slab = {}, double tolerance = 0);

}  // namespace berth::plan
#pragma GCC visibility pop
