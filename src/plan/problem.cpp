#include "berth/plan/problem.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "berth/plan/evaluate.hpp"

namespace berth::plan {
namespace {

error invalid(const char* what, std::uint64_t number) {
  return {errc::invalid_input, what, number};
}

error too_large(const char* what, std::uint64_t number) {
  return {errc::overflow, what, number};
}

std::optional<bytes> least_common_multiple(bytes a, bytes b) {
  return checked_mul(a / std::gcd(a, b), b);
}

result<void> validate_settings(const problem& p) {
  if (p.alignment == 0) return invalid("problem: alignment is zero", 0);
  if (p.granularity == 0) return invalid("problem: size granularity is zero", 0);
  if (p.alignment > max_address) return too_large("problem: alignment exceeds 2^62 bytes", p.alignment);
  if (p.granularity > max_address) return too_large("problem: size granularity exceeds 2^62 bytes", p.granularity);
  if (p.tail_pad > max_address) return too_large("problem: tail pad exceeds 2^62 bytes", p.tail_pad);
  if (p.capacity && !p.memories.empty()) {
    return invalid("problem: a capacity of its own beside those of its memories", *p.capacity);
  }
  if (p.max_slab && *p.max_slab == 0) return invalid("problem: the largest slab is zero bytes", 0);
  constexpr std::size_t most = std::numeric_limits<index>::max();
  if (p.buffers.size() >= most) return too_large("problem: more than 2^32 - 2 buffers", p.buffers.size());
  return {};
}

result<void> validate_memories(const problem& p) {
  for (std::size_t m = 0; m < p.memories.size(); ++m) {
    const memory& memory = p.memories[m];
    if (memory.alignment == 0) return invalid("memory: alignment is zero", m);
    if (memory.alignment > max_address) return too_large("memory: alignment exceeds 2^62 bytes", m);
    if (!is_amount(memory.cost)) return invalid("memory: cost is not a number from 0 to 1e100", m);
    for (const auto& [lo, hi] : memory.reserved) {
      if (lo >= hi) return invalid("memory: a reserved range is empty or reversed", m);
    }
  }
  return {};
}

result<void> validate_lifetime(const buffer& b, index i) {
  if (b.lifetimes.empty()) {
    if (b.live.lower >= b.live.upper) return invalid("buffer: lifetime is empty or reversed", i);
    return {};
  }
  for (std::size_t k = 0; k < b.lifetimes.size(); ++k) {
    if (b.lifetimes[k].lower >= b.lifetimes[k].upper) {
      return invalid("buffer: one of its lifetimes is empty or reversed", i);
    }
    if (k > 0 && b.lifetimes[k].lower < b.lifetimes[k - 1].upper) {
      return invalid("buffer: its lifetimes overlap or are out of order", i);
    }
  }
  return {};
}

// named_by: by memory, the last buffer that named it, plus one.
result<void> validate_memory_names(const problem& p, const buffer& b, index i, std::vector<index>& named_by) {
  for (const index m : b.memories) {
    if (m >= p.memories.size()) return invalid("buffer: names a memory that the problem does not have", i);
    if (named_by[m] == i + 1) return invalid("buffer: names one memory twice", i);
    named_by[m] = i + 1;
  }
  return {};
}

// Returns whether some memory of buffer i is aligned so that a block can start at `offset`.
bool pin_is_aligned(const problem& p, index i, bytes offset) {
  if (!is_aligned(offset, p.alignment_of(i))) return false;
  if (p.memories.empty()) return true;
  const auto fits = [&](const memory& m) { return is_aligned(offset, m.alignment); };
  if (p.buffers[i].memories.empty()) return std::any_of(p.memories.begin(), p.memories.end(), fits);
  return std::any_of(p.buffers[i].memories.begin(), p.buffers[i].memories.end(),
                     [&](index m) { return fits(p.memories[m]); });
}

// The most bytes that alignment can add in front of buffers, by the alignments of all memories.
class alignments {
 public:
  explicit alignments(const std::vector<memory>& memories) {
    for (const memory& m : memories) of_memories_.push_back(m.alignment);
    std::sort(of_memories_.begin(), of_memories_.end(), std::greater{});
    of_memories_.erase(std::unique(of_memories_.begin(), of_memories_.end()), of_memories_.end());
  }

  // Returns the most bytes that any memory can add in front of a buffer of this alignment, plus one; nothing above 64
  // bits.
  std::optional<bytes> widest_with(bytes own) {
    if (of_memories_.empty()) return own;
    const auto [known, is_new] = widest_.try_emplace(own, own);
    if (is_new) known->second = find_widest(own);
    return known->second;
  }

 private:
  // A file of a megabyte can ask for a hundred million pairs of different alignments. After millions, more than any
  // real problem has, it is the most that they could add.
  std::optional<bytes> find_widest(bytes own) {
    bytes widest = own;
    for (const bytes alignment : of_memories_) {
      const auto most = checked_mul(own, alignment);
      if (most && *most <= widest) break;  // no smaller one adds more
      if (pairs_left_ == 0) return most;
      --pairs_left_;
      const auto both = least_common_multiple(own, alignment);
      if (!both) return std::nullopt;
      widest = std::max(widest, *both);
    }
    return widest;
  }

  std::vector<bytes> of_memories_;  // different ones, from the largest
  std::map<bytes, std::optional<bytes>> widest_;
  std::uint32_t pairs_left_ = 4'000'000;  // about a second
};

result<void> validate_buffers(const problem& p) {
  bytes total = 0;
  std::vector<index> named_by(p.memories.size(), 0);
  alignments with_memories{p.memories};
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    if (!p.conflicts) {
      if (auto ok = validate_lifetime(b, i); !ok) return ok;
    }
    if (b.granularity > max_address) return too_large("buffer: size granularity exceeds 2^62 bytes", i);
    if (p.tail_pad_of(i) > max_address) return too_large("buffer: tail pad exceeds 2^62 bytes", i);
    const auto rounded = checked_align_up(b.size, p.granularity_of(i));
    if (!rounded || *rounded > max_address) return too_large("buffer: size exceeds 2^62 bytes", i);
    if (b.alignment > max_address) return too_large("buffer: alignment exceeds 2^62 bytes", i);
    if (auto ok = validate_memory_names(p, b, i, named_by); !ok) return ok;
    const auto widest = with_memories.widest_with(p.alignment_of(i));
    if (!widest || *widest > max_address) {
      return too_large("buffer: its alignment and its memory's together exceed 2^62 bytes", i);
    }
    // No sum of three terms below 2^62 overflows, so that one check a buffer is enough.
    total += *rounded + p.tail_pad_of(i);
    if (total > max_address) return too_large("buffer: the sizes up to this one exceed 2^62 bytes together", i);
    total += *widest - 1;
    if (total > max_address) {
      return too_large("buffer: the sizes and alignments up to this one exceed 2^62 bytes together", i);
    }
    if (b.offset) {
      if (*b.offset > max_address) return too_large("buffer: pinned beyond 2^62 bytes", i);
      if (!pin_is_aligned(p, i, *b.offset)) return invalid("buffer: pinned at an offset that is not aligned", i);
    }
    if (b.alias_group && *b.alias_group >= p.buffers.size()) {
      return invalid("buffer: its alias group is not below the number of buffers", i);
    }
  }
  return {};
}

// Checks groups. Members share one base: one pin, one alignment for all, one memory.
result<void> validate_groups(const problem& p) {
  std::vector<index> members;  // sorted by group
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (p.buffers[i].alias_group) members.push_back(i);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](index a, index b) { return *p.buffers[a].alias_group < *p.buffers[b].alias_group; });
  std::vector<index> common, both;
  for (std::size_t first = 0, last = 0; first < members.size(); first = last) {
    std::optional<bytes> pin;
    bytes alignment = 1;
    bool any_memory = true;  // no member has named its memories so far
    for (last = first;
         last < members.size() && p.buffers[members[last]].alias_group == p.buffers[members[first]].alias_group;
         ++last) {
      const index i = members[last];
      const buffer& b = p.buffers[i];
      const auto lcm = least_common_multiple(alignment, p.alignment_of(i));
      if (!lcm || *lcm > max_address) return too_large("buffer: its alias group's alignment exceeds 2^62 bytes", i);
      alignment = *lcm;
      if (b.offset && pin && *b.offset != *pin) return invalid("buffer: its alias group has two pins", i);
      if (b.offset) pin = b.offset;
      if (pin && !is_aligned(*pin, alignment)) return invalid("buffer: its alias group's pin is not aligned", i);
      if (b.memories.empty()) continue;
      std::vector<index> mine = b.memories;
      std::sort(mine.begin(), mine.end());
      if (any_memory) {
        common = std::move(mine);
        any_memory = false;
      } else {
        both.clear();
        std::set_intersection(common.begin(), common.end(), mine.begin(), mine.end(), std::back_inserter(both));
        common.swap(both);
      }
      if (common.empty()) return invalid("buffer: shares no memory with the rest of its alias group", i);
    }
  }
  return {};
}

bool names_two_buffers(const problem& p, index a, index b) {
  return a != b && a < p.buffers.size() && b < p.buffers.size();
}

result<void> validate_pairs(const problem& p) {
  if (p.conflicts) {
    for (std::size_t k = 0; k < p.conflicts->size(); ++k) {
      const pair& c = (*p.conflicts)[k];
      if (!names_two_buffers(p, c.a, c.b)) return invalid("conflict: does not name two buffers", k);
    }
  }
  for (std::size_t k = 0; k < p.separations.size(); ++k) {
    const pair& s = p.separations[k];
    if (!names_two_buffers(p, s.a, s.b)) return invalid("separation: does not name two buffers", k);
    const auto group = p.buffers[s.a].alias_group;
    if (group && group == p.buffers[s.b].alias_group && p.footprint(s.a) != 0 && p.footprint(s.b) != 0) {
      return invalid("separation: keeps two members of one alias group apart", k);
    }
  }
  for (std::size_t k = 0; k < p.reuse_penalties.size(); ++k) {
    const reuse_penalty& r = p.reuse_penalties[k];
    if (!names_two_buffers(p, r.a, r.b)) return invalid("penalty: does not name two buffers", k);
    if (!is_amount(r.weight)) return invalid("penalty: weight is not a number from 0 to 1e100", k);
  }
  return {};
}

// Refuses the constraints that an order of the buffers cannot keep, and sizes without a number.
result<void> validate_dimensions(const problem& p) {
  if (p.dimensions.empty()) {
    for (index i = 0; i < p.buffers.size(); ++i) {
      if (!p.buffers[i].terms.empty()) return invalid("buffer: has terms, in a problem without dimensions", i);
    }
    return {};
  }
  if (!p.memories.empty()) return invalid("problem: several memories with dimensions", p.memories.size());
  if (p.max_slab) return invalid("problem: slabs with dimensions", *p.max_slab);
  if (!p.reuse_penalties.empty()) return invalid("problem: reuse penalties with dimensions", p.reuse_penalties.size());
  if (p.has_traffic()) return invalid("problem: uses, steps or links with dimensions", p.dimensions.size());
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    if (b.offset) return invalid("buffer: pinned, in a problem with dimensions", i);
    if (b.hint) return invalid("buffer: has a hint, in a problem with dimensions", i);
    if (b.alias_group) return invalid("buffer: in an alias group, in a problem with dimensions", i);
  }
  const auto largest = at_most(p);
  return largest ? validate_buffers(*largest) : largest.error();
}

result<void> validate_uses(const problem& p) {
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    tick before = std::numeric_limits<tick>::min();
    for (const use& u : b.uses) {
      if (!is_amount(u.touched)) {
        return invalid("buffer: the bytes that a use touches are not a number from 0 to 1e100", i);
      }
      if (u.at < before) return invalid("buffer: its uses are not in the order of their ticks", i);
      before = u.at;
      const auto inside = [&](const interval& live) { return live.lower <= u.at && u.at < live.upper; };
      const bool alive =
          b.lifetimes.empty() ? inside(b.live) : std::any_of(b.lifetimes.begin(), b.lifetimes.end(), inside);
      if (!alive) return invalid("buffer: is used outside of its lifetime", i);
      if (!u.memory) continue;
      const bool may =
          *u.memory < p.memories.size() &&
          (b.memories.empty() || std::find(b.memories.begin(), b.memories.end(), *u.memory) != b.memories.end());
      if (!may) return invalid("buffer: a use is in a memory in which it may not live", i);
    }
  }
  return {};
}

result<void> validate_steps(const problem& p) {
  for (std::size_t k = 0; k < p.steps.size(); ++k) {
    if (!is_amount(p.steps[k].duration)) return invalid("step: its duration is not a number from 0 to 1e100", k);
    if (p.steps[k].at == std::numeric_limits<tick>::max()) return invalid("step: is at the last tick there is", k);
    if (k > 0 && p.steps[k].at <= p.steps[k - 1].at) return invalid("step: not after the one before it", k);
  }
  return {};
}

result<void> validate_links(const problem& p) {
  std::vector<std::pair<index, index>> seen;
  for (std::size_t k = 0; k < p.links.size(); ++k) {
    const link& l = p.links[k];
    if (l.from >= p.memories.size() || l.to >= p.memories.size()) return invalid("link: of a memory there is not", k);
    if (l.from == l.to) return invalid("link: from a memory to itself", k);
    if (!(l.bandwidth >= 1 / max_amount && l.bandwidth <= max_amount)) {
      return invalid("link: its bandwidth is not a number from 1e-100 to 1e100", k);
    }
    if (!is_amount(l.latency)) return invalid("link: its latency is not a number from 0 to 1e100", k);
    seen.emplace_back(l.from, l.to);
  }
  std::vector<std::pair<index, index>> sorted = seen;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return {};
  const auto first = std::find(seen.begin(), seen.end(), *twice);
  return invalid("link: a second one between the same memories",
                 static_cast<std::uint64_t>(std::find(first + 1, seen.end(), *twice) - seen.begin()));
}

result<void> validate_traffic(const problem& p) {
  if (!p.has_traffic()) return {};
  if (p.memories.empty()) return invalid("problem: moves without memories", 0);
  if (p.conflicts) return invalid("problem: moves need lifetimes, and it has conflicts instead", p.conflicts->size());
  for (const auto check : {validate_uses, validate_steps, validate_links}) {
    if (auto ok = check(p); !ok) return ok;
  }
  return {};
}

}  // namespace

result<void> validate(const problem& p) {
  for (const auto check : {validate_settings, validate_memories, validate_buffers, validate_groups, validate_pairs,
                           validate_dimensions, validate_traffic}) {
    if (auto ok = check(p); !ok) return ok;
  }
  return {};
}

bool make_stricter(problem& p, const rules::placement& rules) {
  const auto both = rules::strictest(
      {.start_alignment = p.alignment, .size_granularity = p.granularity, .tail_pad = p.tail_pad}, rules);
  if (!both) return false;
  std::vector<std::pair<bytes, bytes>> own;  // by buffer: alignment and granularity, 0 where it names none
  own.reserve(p.buffers.size());
  for (const buffer& b : p.buffers) {
    const auto stricter = rules::strictest(
        {.start_alignment = std::max<bytes>(b.alignment, 1), .size_granularity = std::max<bytes>(b.granularity, 1)},
        rules);
    if (!stricter) return false;
    own.emplace_back(b.alignment == 0 ? 0 : stricter->start_alignment,
                     b.granularity == 0 ? 0 : stricter->size_granularity);
  }
  p.alignment = both->start_alignment;
  p.granularity = both->size_granularity;
  p.tail_pad = both->tail_pad;
  for (index i = 0; i < p.buffers.size(); ++i) {
    buffer& b = p.buffers[i];
    std::tie(b.alignment, b.granularity) = own[i];
    if (b.tail_pad) b.tail_pad = std::max(*b.tail_pad, rules.tail_pad);
  }
  return true;
}

}  // namespace berth::plan
