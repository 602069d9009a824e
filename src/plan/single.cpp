#include "plan/single.hpp"

#include <algorithm>

#include "plan/bounds.hpp"
#include "plan/greedy.hpp"
#include "plan/instance.hpp"

namespace berth::plan {
namespace {

// Pins and reserved ranges that overlap: no plan exists, whatever the capacity.
bool pins_clash(const instance& in) {
  occupancy taken{in};
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    if (in.items[i].pin == no_offset) continue;
    if (!taken.is_free(i, in.items[i].pin)) return true;
    taken.insert(i, in.items[i].pin);
  }
  return false;
}

void fill(const problem& p, const instance& in, const layout& found, plan& out) {
  out.offsets.resize(p.buffers.size());
  out.arena_bytes = 0;
  for (index i = 0; i < p.buffers.size(); ++i) {
    const std::uint32_t it = in.item_of[i];
    // An empty buffer touches no byte: it lies where it was asked to, or at 0.
    out.offsets[i] = it == no_item ? p.buffers[i].offset.value_or(0) : static_cast<bytes>(found.offsets[it]) * in.unit;
    out.arena_bytes = std::max(out.arena_bytes, out.offsets[i] + p.footprint(i));
  }
}

}  // namespace

plan solve_single(const problem& p, const options&) {
  plan out;
  const instance in = make_instance(p);
  if (!in.representable) return out;
  const units bound = arena_bound(in);
  out.lower_bound_bytes = static_cast<bytes>(bound) * in.unit;
  for (const buffer& b : p.buffers) out.lower_bound_bytes = std::max(out.lower_bound_bytes, b.offset.value_or(0));
  if (bound > in.capacity || pins_clash(in)) {
    out.status = status::infeasible;
    return out;
  }
  const layout found = best_greedy(in, bound);
  if (found.arena > in.capacity) return out;
  fill(p, in, found, out);
  out.solver = found.solver;
  out.status = out.arena_bytes == out.lower_bound_bytes ? status::optimal : status::feasible;
  return out;
}

}  // namespace berth::plan
