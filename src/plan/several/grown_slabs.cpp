#include "plan/several/grown_slabs.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace berth::plan {
namespace {

struct lying {
  index buffer;
  bytes offset, end;
  interval live;
};

// A place in a slab: the slab's growth for it, and the rest of the hole.
struct spot {
  bytes growth, left, offset;
};

struct growing {
  std::vector<lying> all;
  std::vector<lying> in_the_way;  // by offset; of all, those that a later buffer may meet
  bytes height = 0;

  // A hole below what is alive is better than any place above it; by size the first, by birth the smallest.
  std::optional<spot> best_for(bytes size, bytes alignment, const interval& live, bytes limit, slab_order by) const {
    std::optional<spot> best;
    bytes from = 0;
    for (const lying& l : in_the_way) {
      if (l.live.upper <= live.lower || live.upper <= l.live.lower) continue;
      const bytes at = align_up(from, alignment);
      if (at + size <= l.offset && (!best || l.offset - at - size < best->left)) best = {0, l.offset - at - size, at};
      if (best && by == slab_order::size) return best;
      from = std::max(from, l.end);
    }
    const bytes at = align_up(from, alignment);
    if (best || size > limit || at > limit - size) return best;
    const bytes end = at + size;
    return end > height ? spot{end - height, 0, at} : spot{0, limit + height - end, at};
  }
  void put(const lying& l) {
    all.push_back(l);
    in_the_way.insert(std::upper_bound(in_the_way.begin(), in_the_way.end(), l.offset,
                                       [](bytes offset, const lying& other) { return offset < other.offset; }),
                      l);
    height = std::max(height, l.end);
  }
};

interval life_of(const buffer& b) {
  return b.lifetimes.empty() ? b.live : interval{b.lifetimes.front().lower, b.lifetimes.back().upper};
}

bool only_lifetimes(const problem& p) {
  return !p.conflicts && p.separations.empty() && p.memories.empty() &&
         std::none_of(p.buffers.begin(), p.buffers.end(), [](const buffer& b) { return b.offset || b.alias_group; });
}

grown_slab finished(growing g) {
  std::sort(g.all.begin(), g.all.end(), [](const lying& a, const lying& b) { return a.buffer < b.buffer; });
  grown_slab out;
  out.height = g.height;
  for (const lying& l : g.all) {
    out.members.push_back(l.buffer);
    out.offsets.push_back(l.offset);
  }
  return out;
}

}  // namespace

std::vector<grown_slab> grow_slabs(const problem& p, bytes max_slab, slab_order by, const patience& wait) {
  if (!only_lifetimes(p)) return {};
  std::vector<index> order(p.buffers.size());
  std::iota(order.begin(), order.end(), index{0});
  const bool by_birth = by == slab_order::birth;
  std::stable_sort(order.begin(), order.end(), [&](index a, index b) {
    return by_birth ? life_of(p.buffers[a]).lower < life_of(p.buffers[b]).lower : p.footprint(a) > p.footprint(b);
  });
  std::vector<growing> open;
  for (const index i : order) {
    const interval live = life_of(p.buffers[i]);
    std::size_t where = open.size();
    spot best{max_bytes, max_bytes, 0};
    std::uint64_t looks = 0;
    for (std::size_t k = 0; k < open.size(); ++k) {
      if (by_birth) std::erase_if(open[k].in_the_way, [&](const lying& l) { return l.live.upper <= live.lower; });
      looks += open[k].in_the_way.size();
      const auto here = open[k].best_for(p.footprint(i), p.alignment_of(i), live, max_slab, by);
      if (!here || std::pair{best.growth, best.left} <= std::pair{here->growth, here->left}) continue;
      best = *here;
      where = k;
      if (!by_birth) break;
    }
    if (wait.over(looks)) return {};
    if (where == open.size()) {
      open.emplace_back();
      best = {0, 0, 0};
    }
    open[where].put({i, best.offset, best.offset + p.footprint(i), live});
  }
  std::vector<grown_slab> slabs;
  for (growing& g : open) slabs.push_back(finished(std::move(g)));
  return slabs;
}

}  // namespace berth::plan
