#include "plan/parts.hpp"

#include <algorithm>
#include <numeric>

namespace berth::plan {
namespace {

std::vector<index> memories_of(const problem& p, const buffer& b) {
  if (!b.memories.empty()) return b.memories;
  std::vector<index> all(std::max<std::size_t>(1, p.memories.size()));
  std::iota(all.begin(), all.end(), index{0});
  return all;
}

}  // namespace

std::vector<unit> units_of(const problem& p) {
  constexpr index none = ~index{0};
  std::vector<unit> units;
  std::vector<index> unit_of_group(p.buffers.size(), none);
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    index u = b.alias_group ? unit_of_group[*b.alias_group] : none;
    if (u == none) {
      u = static_cast<index>(units.size());
      units.push_back({.memories = memories_of(p, b)});
      if (b.alias_group) unit_of_group[*b.alias_group] = u;
    }
    unit& one = units[u];
    one.members.push_back(i);
    one.size = std::max(one.size, p.footprint(i));
    one.total += p.footprint(i);
    if (!b.memories.empty()) {
      std::erase_if(one.memories,
                    [&](index m) { return std::find(b.memories.begin(), b.memories.end(), m) == b.memories.end(); });
    }
    // A pin that is not aligned in a memory, or beyond its end, keeps the whole unit out of it.
    if (b.offset && !p.memories.empty()) {
      std::erase_if(one.memories, [&](index m) {
        const memory& at = p.memories[m];
        return !is_aligned(*b.offset, at.alignment) || (at.capacity && *b.offset + p.footprint(i) > *at.capacity);
      });
    }
  }
  return units;
}

problem part_of(const problem& p, index m, std::span<const index> members) {
  constexpr index none = ~index{0};
  problem part;
  part.alignment = p.alignment;
  part.granularity = p.granularity;
  part.tail_pad = p.tail_pad;
  if (p.memories.empty()) {
    part.capacity = p.capacity;
  } else {
    part.memories.push_back(p.memories[m]);
  }
  std::vector<index> place(p.buffers.size(), none);
  std::vector<index> group(p.buffers.size(), none);  // by the group's number in p: its number in the part
  part.buffers.reserve(members.size());
  for (const index i : members) {
    const buffer& b = p.buffers[i];
    place[i] = static_cast<index>(part.buffers.size());
    buffer copy{.size = b.size,
                .live = b.live,
                .lifetimes = b.lifetimes,
                .alignment = b.alignment,
                .granularity = b.granularity,
                .tail_pad = b.tail_pad,
                .offset = b.offset,
                .hint = b.hint};
    if (b.alias_group) {
      if (group[*b.alias_group] == none) group[*b.alias_group] = place[i];
      copy.alias_group = group[*b.alias_group];
    }
    part.buffers.push_back(std::move(copy));
  }
  const auto inside = [&](const pair& of) { return place[of.a] != none && place[of.b] != none; };
  if (p.conflicts) {
    part.conflicts.emplace();
    for (const pair& c : *p.conflicts) {
      if (inside(c)) part.conflicts->push_back({place[c.a], place[c.b]});
    }
  }
  for (const pair& s : p.separations) {
    if (inside(s)) part.separations.push_back({place[s.a], place[s.b]});
  }
  return part;
}

}  // namespace berth::plan
