#include "berth/plan/replan.hpp"

#include <algorithm>

#include "berth/plan/verify.hpp"
#include "plan/model/within.hpp"
#include "plan/single/single.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

// Whether hints count only below an arena that is found as if there were none (solve_single).
bool hints_come_last(const problem& p) {
  return p.memories.size() <= 1 && !p.max_slab && p.reuse_penalties.empty();
}

// Whether the arena for the old places is never above that of solve(). Hints of the problem's own lead solve() to other
// layouts than the old places do, and one of these may be lower by luck.
bool ends_no_higher(const problem& p) {
  return hints_come_last(p) &&
         std::none_of(p.buffers.begin(), p.buffers.end(), [](const buffer& b) { return b.hint.has_value(); });
}

// Whether keeping the most hints is the same as moving the fewest buffers: every buffer is an item of its own, and its
// offset alone says where it is.
bool hints_are_places(const problem& p) {
  return hints_come_last(p) &&
         std::none_of(p.buffers.begin(), p.buffers.end(), [](const buffer& b) { return b.alias_group.has_value(); });
}

}  // namespace

result<replanned> replan(const problem& p, std::span<const std::optional<bytes>> before, const options& o,
                         std::span<const index> before_memory, std::span<const index> before_slab) {
  const std::size_t n = p.buffers.size();
  if (before.size() != n || (!before_memory.empty() && before_memory.size() != n) ||
      (!before_slab.empty() && before_slab.size() != n)) {
    return error{errc::invalid_input, "problem: not one old offset a buffer", before.size()};
  }
  problem wished = p;
  for (index i = 0; i < n; ++i) {
    if (before[i]) wished.buffers[i].hint = *before[i] <= max_address ? before[i] : std::nullopt;
  }
  replanned out;
  const patience wait{o};
  if (hints_are_places(p)) {
    if (auto ok = validate(wished); !ok) return ok.error();
    out.layout = solve_single(wished, o, wait, &out.fewest);
    out.layout.deadline_hit = wait.was_over();
    if (out.layout.has_offsets()) {
      if (const auto broken = verify(p, out.layout)) return error{errc::internal, broken->rule, broken->a};
      // A proof that is more than can be checked may be right all the same.
      if (const auto wrong = verify_bound_within(p, 0, out.layout.proof, bound_patience(p)))
        return error{errc::internal, wrong->rule, wrong->a.value_or(0)};
    }
  } else {
    auto answer = solve_within(wished, o, wait);
    if (!answer) return answer.error();
    out.layout = std::move(*answer);
  }
  if (!out.layout.has_offsets() || (!out.layout.optimal() && !ends_no_higher(p))) {
    // It may be the places that do not fit the capacity, took the work that a plan would have needed or led to a larger
    // arena.
    auto answer = solve_within(p, o, wait);
    if (!answer) return answer.error();
    const bool lower = answer->has_offsets() && answer->arena() < out.layout.arena();
    if (!out.layout.has_offsets() || lower) out = {.layout = std::move(*answer)};
  }
  if (!out.layout.has_offsets()) return out;
  for (index i = 0; i < n; ++i) {
    if (!before[i] || p.footprint(i) == 0) continue;
    const bool elsewhere =
        (!before_memory.empty() && !out.layout.memory_of.empty() && before_memory[i] != out.layout.memory_of[i]) ||
        (!before_slab.empty() && !out.layout.slab_of.empty() && before_slab[i] != out.layout.slab_of[i]);
    if (!elsewhere && out.layout.offset(i) == *before[i]) continue;
    ++out.moved;
    out.moved_bytes += p.buffers[i].size;
  }
  // Where a new buffer has a hint of its own, the most hints kept need not be the fewest buffers moved.
  for (index i = 0; i < n; ++i) out.fewest = out.fewest && (before[i] || !p.buffers[i].hint);
  if (out.moved == 0) out.fewest = true;
  return out;
}

}  // namespace berth::plan
