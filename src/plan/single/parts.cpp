#include "plan/single/parts.hpp"

#include <algorithm>
#include <numeric>

#include "plan/policy.hpp"

namespace berth::plan {
namespace {

constexpr index none = ~index{0};

// The memories of buffers that name none.
class any_memory {
 public:
  any_memory(const problem& p, bool all) : p_{p}, by_cost_(std::max<std::size_t>(1, p.memories.size())) {
    std::iota(by_cost_.begin(), by_cost_.end(), index{0});
    all_ = by_cost_;
    if (p.memories.size() < 2) return;
    std::stable_sort(by_cost_.begin(), by_cost_.end(),
                     [&](index a, index b) { return p.memories[a].cost < p.memories[b].cost; });
    most_ = all ? all_.size()
                : std::max(policy::fewest_choices, policy::most_choices / std::max<std::size_t>(1, p.buffers.size()));
  }

  [[nodiscard]] std::vector<index> choices(index i, bool& abridged) const {
    const buffer& b = p_.buffers[i];
    // Looks at all: a pin or a group leaves few of them.
    if (all_.size() <= most_ || b.offset || b.alias_group) return all_;
    abridged = true;
    std::vector<index> some;
    const auto take = [&](std::size_t k) {
      const memory& m = p_.memories[by_cost_[k]];
      if (!m.capacity || p_.footprint(i) <= *m.capacity) some.push_back(by_cost_[k]);
    };
    // Takes half of them from the cheapest on, half from elsewhere, from another place for each buffer.
    std::size_t k = 0;
    for (; k < by_cost_.size() && some.size() < most_ / 2; ++k) take(k);
    const std::size_t rest = by_cost_.size() - k, start = rest == 0 ? 0 : i * most_ % rest;
    for (std::size_t j = 0; j < rest && some.size() < most_; ++j) take(k + (start + j) % rest);
    if (some.empty()) return all_;
    // Includes one that is never full, if there is one.
    const auto is_endless = [&](index m) { return !p_.memories[m].capacity; };
    const auto endless = std::find_if(by_cost_.begin(), by_cost_.end(), is_endless);
    if (endless != by_cost_.end() && std::none_of(some.begin(), some.end(), is_endless)) some.back() = *endless;
    std::sort(some.begin(), some.end());
    return some;
  }

 private:
  const problem& p_;
  std::vector<index> all_, by_cost_;
  std::size_t most_ = policy::fewest_choices;  // for one buffer
};

}  // namespace

std::vector<bundle> bundles_of(const problem& p, bool all) {
  const any_memory any{p, all};
  std::vector<bundle> bundles;
  std::vector<index> bundle_of_group(p.buffers.size(), none);
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    index u = b.alias_group ? bundle_of_group[*b.alias_group] : none;
    if (u == none) {
      u = static_cast<index>(bundles.size());
      bundles.emplace_back();
      bundles.back().memories = b.memories.empty() ? any.choices(i, bundles.back().abridged) : b.memories;
      if (b.alias_group) bundle_of_group[*b.alias_group] = u;
    }
    bundle& one = bundles[u];
    one.members.push_back(i);
    one.size = std::max(one.size, p.footprint(i));
    one.total += p.footprint(i);
    if (!b.memories.empty()) {
      std::erase_if(one.memories,
                    [&](index m) { return std::find(b.memories.begin(), b.memories.end(), m) == b.memories.end(); });
    }
    // A pin keeps the whole bundle out of a memory if it is not aligned there, or ends beyond the memory or its slabs.
    // This holds for an empty buffer too, whose size excludes no memory.
    if (b.offset && !p.memories.empty()) {
      const bytes end = *b.offset + p.footprint(i);
      std::erase_if(one.memories, [&](index m) {
        const memory& at = p.memories[m];
        return !is_aligned(*b.offset, at.alignment) || (at.capacity && end > *at.capacity) ||
               (p.max_slab && end > *p.max_slab);
      });
    }
  }
  return bundles;
}

part_maker::part_maker(const problem& p)
    : p_{p}, place_(p.buffers.size(), none), group_(p.buffers.size(), none), separations_{list(p, p.separations)} {
  if (p.conflicts) conflicts_ = list(p, *p.conflicts);
}

part_maker::listed part_maker::list(const problem& p, const std::vector<pair>& pairs) {
  listed out;
  if (pairs.empty()) return out;
  out.first.assign(p.buffers.size() + 1, 0);
  for (const pair& of : pairs) ++out.first[of.a + std::size_t{1}];
  std::partial_sum(out.first.begin(), out.first.end(), out.first.begin());
  std::vector<std::uint32_t> at(out.first.begin(), out.first.end() - 1);
  out.others.resize(pairs.size());
  for (const pair& of : pairs) out.others[at[of.a]++] = of.b;
  return out;
}

void part_maker::add(const listed& all, std::span<const index> members, std::vector<pair>& out) const {
  if (all.others.empty()) return;
  for (const index a : members) {
    for (std::uint32_t k = all.first[a]; k < all.first[a + std::size_t{1}]; ++k) {
      if (place_[all.others[k]] != none) out.push_back({place_[a], place_[all.others[k]]});
    }
  }
}

problem part_maker::part(index m, std::span<const index> members) {
  problem part;
  part.alignment = p_.alignment;
  part.granularity = p_.granularity;
  part.tail_pad = p_.tail_pad;
  if (p_.memories.empty()) {
    part.capacity = p_.capacity;
  } else {
    part.memories.push_back(p_.memories[m]);
  }
  for (const index i : members) {
    const buffer& b = p_.buffers[i];
    place_[i] = static_cast<index>(part.buffers.size());
    buffer copy{.size = b.size,
                .live = b.live,
                .lifetimes = b.lifetimes,
                .alignment = b.alignment,
                .granularity = b.granularity,
                .tail_pad = b.tail_pad,
                .offset = b.offset,
                .hint = b.hint};
    if (b.alias_group) {
      if (group_[*b.alias_group] == none) group_[*b.alias_group] = place_[i];
      copy.alias_group = group_[*b.alias_group];
    }
    part.buffers.push_back(std::move(copy));
  }
  if (p_.conflicts) add(conflicts_, members, part.conflicts.emplace());
  add(separations_, members, part.separations);
  for (const index i : members) {
    place_[i] = none;
    if (p_.buffers[i].alias_group) group_[*p_.buffers[i].alias_group] = none;
  }
  return part;
}

problem part_of(const problem& p, index m, std::span<const index> members) {
  return part_maker{p}.part(m, members);
}

}  // namespace berth::plan
