#include "plan/several/one_memory.hpp"

#include <algorithm>

#include "plan/several/slabs.hpp"
#include "plan/single/single.hpp"

namespace berth::plan {

// Covers buffers of no bytes too, which the engine need not place.
plan solve_one_memory(const problem& p, const std::optional<bytes>& max_slab, const options& o, const patience& wait,
                      verified* so_far, effort moving) {
  auto limit = p.memories.empty() ? p.capacity : p.memories[0].capacity;
  if (max_slab) limit = std::min(limit.value_or(*max_slab), *max_slab);
  for (index i = 0; limit && i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    if (!b.offset || *b.offset + p.footprint(i) <= *limit) continue;
    argument why;  // of a slab's height none can be checked
    if (!max_slab) why = {.bound = *b.offset + p.footprint(i), .buffers = {i}};
    return refused(status::infeasible, "buffer is pinned beyond the capacity", i, *b.offset, why);
  }
  if (max_slab) return solve_slabs(p, *max_slab, o, wait, moving);
  plan answer = solve_single(p, o, wait, nullptr, so_far);
  if (answer.status != status::infeasible) return answer;
  for (index i = 0; limit && i < p.buffers.size(); ++i) {
    if (p.footprint(i) <= *limit) continue;
    answer.reason = "buffer alone exceeds the capacity";
    answer.culprit = i;
    answer.number = p.footprint(i);
    break;
  }
  return answer;
}

}  // namespace berth::plan
