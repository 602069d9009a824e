#include "plan/greedy/sweep.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "plan/greedy/sweeper.hpp"
#include "plan/policy.hpp"
#include "plan/sort_within.hpp"

namespace berth::plan {
namespace {

bool sweeps_serve(const problem& p) {
  return !p.conflicts && !p.max_slab && p.separations.empty() &&
         (p.memories.empty() || (p.memories.size() == 1 && p.memories[0].reserved.empty()));
}

bool sweeps_serve(const buffer& b) {
  return b.lifetimes.empty() && !b.offset && !b.alias_group;
}

// Counts lowers and uppers as steps between the ticks at which something happens. Returns false if the wait is over.
bool count_in_steps(const problem& p, timeline& line, const patience& wait) {
  std::vector<tick>& at = line.sparse;
  at.reserve(2 * p.buffers.size());
  for (const buffer& b : p.buffers) {
    at.push_back(b.live.lower);
    at.push_back(b.live.upper);
  }
  if (!sort_within(at.begin(), at.end(), std::less<>{}, wait)) return false;
  at.erase(std::unique(at.begin(), at.end()), at.end());
  line.ticks = static_cast<std::uint32_t>(at.size()) - 1;
  const auto step = [&](tick t) {
    return static_cast<std::uint32_t>(std::lower_bound(at.begin(), at.end(), t) - at.begin());
  };
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (i % 1024 == 0 && wait.over(1024 * 8)) return false;
    line.rectangles[i].lower = step(p.buffers[i].live.lower);
    line.rectangles[i].upper = step(p.buffers[i].live.upper);
  }
  return true;
}

std::optional<timeline> make_timeline(const problem& p, const patience& wait) {
  if (p.buffers.empty() || !sweeps_serve(p)) return {};
  timeline line;
  line.rectangles.reserve(p.buffers.size());
  tick first = p.buffers[0].live.lower, last = p.buffers[0].live.upper;
  bool same = true;
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    if (!sweeps_serve(b) || (i % 1024 == 0 && wait.over(1024))) return {};
    first = std::min(first, b.live.lower);
    last = std::max(last, b.live.upper);
    bytes alignment = p.alignment_of(i);
    if (!p.memories.empty()) alignment = std::lcm(alignment, p.memories[0].alignment);
    // Only the low 32 bits for now. The first tick, known after the loop, is subtracted where ticks are dense; the
    // difference is right although this wraps.
    line.rectangles.push_back({static_cast<std::uint32_t>(b.live.lower), static_cast<std::uint32_t>(b.live.upper),
                               p.footprint(i), alignment, 0});
    same = same && alignment == line.rectangles[0].alignment;
  }
  line.first = first;
  const std::uint64_t ticks = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
  if (ticks <= policy::dense_ticks_per_buffer * p.buffers.size()) {
    line.ticks = static_cast<std::uint32_t>(ticks);
    for (rectangle& q : line.rectangles) {
      q.lower -= static_cast<std::uint32_t>(first);
      q.upper -= static_cast<std::uint32_t>(first);
    }
  } else {
    if (!count_in_steps(p, line, wait)) return {};
  }
  if (same) {
    line.alignment = line.rectangles[0].alignment;
    for (rectangle& q : line.rectangles) {
      q.spare = align_up(q.size, q.alignment) - q.size;
      q.size += q.spare;
    }
  }
  return line;
}

}  // namespace

std::optional<swept> sweep(const problem& p, double tolerated, const patience& wait) {
  const std::optional<timeline> line = make_timeline(p, wait);
  if (!line) return {};
  sweeper over{*line, &wait};
  if (!over.ready()) return {};

  std::optional<swept> best;
  argument why{.at = line->sparse.empty() ? line->first + static_cast<tick>(over.peak()) : line->sparse[over.peak()]};
  bytes spared = 0;  // by the one that lies highest: it need not be rounded
  for (const index i : over.stack()) {
    why.bound += line->rectangles[i].size;
    spared = std::max(spared, line->rectangles[i].spare);
  }
  why.bound -= spared;
  if (line->alignment) why.step = *line->alignment;
  const auto keep = [&](const std::vector<bytes>* offsets) {
    if (offsets == nullptr) return;
    bytes arena = 0;
    for (index i = 0; i < offsets->size(); ++i) arena = std::max(arena, (*offsets)[i] + p.footprint(i));
    if (!best || arena < best->arena) best = swept{*offsets, arena, why};
  };
  keep(over.by_ends());
  const auto near = why.bound + static_cast<bytes>(tolerated * static_cast<double>(why.bound));
  if (!best || best->arena > near) keep(over.by_best_fit());
  return best;
}

}  // namespace berth::plan
