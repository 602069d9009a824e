#include "plan/sweep.hpp"

#include <algorithm>
#include <numeric>

namespace berth::plan {
namespace {

constexpr std::uint64_t most_ticks_per_buffer = 4;
constexpr std::uint64_t most_holes_per_buffer = 64;

bool is_plain(const problem& p) {
  if (p.conflicts || p.max_slab || !p.separations.empty() || p.memories.size() > 1) return false;
  if (!p.memories.empty() && !p.memories[0].reserved.empty()) return false;
  return std::all_of(p.buffers.begin(), p.buffers.end(),
                     [](const buffer& b) { return b.lifetimes.empty() && !b.offset && !b.hint && !b.alias_group; });
}

// Buffers by tick, in a row: those of tick t are of[first[t]] to of[first[t + 1]].
struct by_tick {
  std::vector<std::uint32_t> first;
  std::vector<index> of;
};

template <class Tick>
by_tick sort_by_tick(std::size_t n, std::size_t ticks, Tick at) {
  by_tick out{std::vector<std::uint32_t>(ticks + 3, 0), std::vector<index>(n)};
  for (index i = 0; i < n; ++i) ++out.first[at(i) + 2];
  for (std::size_t t = 2; t < out.first.size(); ++t) out.first[t] += out.first[t - 1];
  for (index i = 0; i < n; ++i) out.of[out.first[at(i) + 1]++] = i;
  return out;
}

constexpr std::uint32_t none = ~std::uint32_t{0};

// Neighbours in address order; together they cover [0, top).
struct block {
  bytes lo;
  bytes hi;
  std::uint32_t below;
  std::uint32_t above;
  std::uint32_t hole;  // its place among the holes, or none
};

class free_list {
 public:
  explicit free_list(std::size_t buffers) {
    blocks_.reserve(buffers + 16);
    holes_.reserve(64);
  }

  // The block of `size` bytes that is taken.
  std::uint32_t take(bytes size, bytes alignment) {
    std::uint32_t best = none;
    bytes slack = ~bytes{0};
    looked_at_ += holes_.size();
    for (const std::uint32_t h : holes_) {
      const block& b = blocks_[h];
      const bytes at = align_up(b.lo, alignment);
      if (at + size > b.hi) continue;
      const bytes left = b.hi - b.lo - size;
      if (left < slack || (left == slack && b.lo < blocks_[best].lo)) {
        best = h;
        slack = left;
      }
    }
    if (best == none) best = extend(size, alignment);
    const bytes at = align_up(blocks_[best].lo, alignment);
    if (at != blocks_[best].lo) best = split(best, at);
    if (at + size != blocks_[best].hi) split(best, at + size);
    unlist(best);
    return best;
  }

  void give(std::uint32_t b) {
    const std::uint32_t below = blocks_[b].below;
    if (below != none && blocks_[below].hole != none) {
      merge(below, b);
      b = below;
    } else {
      list(b);
    }
    const std::uint32_t above = blocks_[b].above;
    if (above != none && blocks_[above].hole != none) {
      unlist(above);
      merge(b, above);
    }
  }

  [[nodiscard]] bytes offset(std::uint32_t b) const { return blocks_[b].lo; }
  [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }

 private:
  void list(std::uint32_t b) {
    blocks_[b].hole = static_cast<std::uint32_t>(holes_.size());
    holes_.push_back(b);
  }
  void unlist(std::uint32_t b) {
    holes_[blocks_[b].hole] = holes_.back();
    blocks_[holes_.back()].hole = blocks_[b].hole;
    holes_.pop_back();
    blocks_[b].hole = none;
  }
  std::uint32_t make(const block& b) {
    if (spare_.empty()) {
      blocks_.push_back(b);
      return static_cast<std::uint32_t>(blocks_.size() - 1);
    }
    const std::uint32_t at = spare_.back();
    spare_.pop_back();
    blocks_[at] = b;
    return at;
  }
  // Block b, a hole, ends at `at` from now on; the hole above it is returned.
  std::uint32_t split(std::uint32_t b, bytes at) {
    const std::uint32_t upper = make({at, blocks_[b].hi, b, blocks_[b].above, none});
    if (blocks_[b].above != none) blocks_[blocks_[b].above].below = upper;
    if (last_ == b) last_ = upper;
    blocks_[b].hi = at;
    blocks_[b].above = upper;
    list(upper);
    return upper;
  }
  void merge(std::uint32_t b, std::uint32_t above) {
    blocks_[b].hi = blocks_[above].hi;
    blocks_[b].above = blocks_[above].above;
    if (blocks_[b].above != none) blocks_[blocks_[b].above].below = b;
    if (last_ == above) last_ = b;
    spare_.push_back(above);
  }
  // A hole at the top, from the last hole on if there is one.
  std::uint32_t extend(bytes size, bytes alignment) {
    if (last_ == none || blocks_[last_].hole == none) {
      const bytes top = last_ == none ? 0 : blocks_[last_].hi;
      const std::uint32_t b = make({top, top, last_, none, none});
      if (last_ != none) blocks_[last_].above = b;
      last_ = b;
      list(b);
    }
    blocks_[last_].hi = align_up(blocks_[last_].lo, alignment) + size;
    return last_;
  }

  std::vector<block> blocks_;
  std::vector<std::uint32_t> spare_;
  std::vector<std::uint32_t> holes_;
  std::uint32_t last_ = none;
  std::uint64_t looked_at_ = 0;
};

}  // namespace

std::optional<swept> sweep(const problem& p) {
  const std::size_t n = p.buffers.size();
  if (n == 0 || !is_plain(p)) return {};
  tick first = p.buffers[0].live.lower;
  tick last = p.buffers[0].live.upper;
  for (const buffer& b : p.buffers) {
    first = std::min(first, b.live.lower);
    last = std::max(last, b.live.upper);
  }
  const std::uint64_t ticks = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
  if (ticks > most_ticks_per_buffer * n) return {};
  const by_tick starts = sort_by_tick(n, ticks, [&](index i) { return std::size_t(p.buffers[i].live.lower - first); });
  const by_tick ends = sort_by_tick(n, ticks, [&](index i) { return std::size_t(p.buffers[i].live.upper - first); });

  swept out;
  out.offsets.resize(n);
  std::vector<std::uint32_t> block_of(n);
  free_list memory{n};
  bytes live = 0;
  for (std::size_t t = 0; t < ticks; ++t) {
    for (std::uint32_t k = ends.first[t]; k < ends.first[t + 1]; ++k) {
      const bytes size = p.footprint(ends.of[k]);
      if (size == 0) continue;
      memory.give(block_of[ends.of[k]]);
      live -= size;
    }
    for (std::uint32_t k = starts.first[t]; k < starts.first[t + 1]; ++k) {
      const index i = starts.of[k];
      const bytes size = p.footprint(i);
      if (size == 0) continue;
      bytes alignment = p.alignment_of(i);
      if (!p.memories.empty()) alignment = std::lcm(alignment, p.memories[0].alignment);
      block_of[i] = memory.take(size, alignment);
      out.offsets[i] = memory.offset(block_of[i]);
      out.arena = std::max(out.arena, out.offsets[i] + size);
      live += size;
    }
    if (live > out.most_live) {
      out.most_live = live;
      out.most_live_at = first + static_cast<tick>(t);
    }
    if (memory.looked_at() > most_holes_per_buffer * n) return {};
  }
  return out;
}

}  // namespace berth::plan
