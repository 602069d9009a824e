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

// As solve(), with every buffer kept at before[i], where the arena allows it; nothing for a buffer that is new. The
// arena is never larger than solve()'s by more than the tolerance: it comes first, then the number of buffers kept
// (each counts the same, whatever its size). Hints in the problem count only for buffers that are new. Offsets are kept
// in the memory that a buffer gets, which is chosen as solve() chooses it; a buffer in another memory or slab counts as
// moved where `before_memory` or `before_slab` say where it was (by buffer; empty: unknown).
//
// The former plan is a candidate itself, and so is one that ejection chains repair where it no longer fits: either is
// taken where it moves fewer buffers and its arena is at most `tolerance` (0 to 1) above the new one. So shrinking a
// buffer never raises the arena, and with a tolerance of 0.01 nothing moves that saves less than a hundredth.
//
// effort::fast tries once to keep all and place the rest around them. Costs a solve() and the search for places; with
// slabs, several memories, penalties or hints of the problem's own up to two. Error: as solve(); or one number too few.
[[nodiscard]] result<replanned> replan(const problem& p, std::span<const std::optional<bytes>> before,
                                       const options& o = {}, std::span<const index> before_memory = {},
                                       std::span<const index> before_slab = {}, double tolerance = 0);

}  // namespace berth::plan
#pragma GCC visibility pop
