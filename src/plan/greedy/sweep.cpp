#include "plan/greedy/sweep.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace berth::plan {
namespace {

constexpr std::uint64_t dense_ticks_per_buffer = 4;
constexpr std::uint64_t most_holes_per_buffer = 64;

bool is_plain(const problem& p) {
  return !p.conflicts && !p.max_slab && p.separations.empty() &&
         (p.memories.empty() || (p.memories.size() == 1 && p.memories[0].reserved.empty()));
}

bool is_plain(const buffer& b) {
  return b.lifetimes.empty() && !b.offset && !b.hint && !b.alias_group;
}

// A buffer in what the passes need of it. Ticks are counted from the first one; where they are sparse, in steps.
struct piece {
  std::uint32_t lower;
  std::uint32_t upper;
  bytes size;  // the footprint; rounded up to the alignment where all have the same ...
  bytes alignment;
  bytes spare;  // ... by so much
};

struct timeline {
  std::vector<piece> pieces;       // by buffer
  std::uint32_t ticks = 0;         // pieces live in [0, ticks)
  tick first = 0;                  // tick 0 in the problem's time ...
  std::vector<tick> sparse;        // ... or each of them
  std::optional<bytes> alignment;  // of all; nothing where they differ
};

// Lowers and uppers as steps between the ticks at which something happens.
void count_in_steps(const problem& p, timeline& line) {
  std::vector<tick>& at = line.sparse;
  at.reserve(2 * p.buffers.size());
  for (const buffer& b : p.buffers) {
    at.push_back(b.live.lower);
    at.push_back(b.live.upper);
  }
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  line.ticks = static_cast<std::uint32_t>(at.size()) - 1;
  const auto step = [&](tick t) {
    return static_cast<std::uint32_t>(std::lower_bound(at.begin(), at.end(), t) - at.begin());
  };
  for (index i = 0; i < p.buffers.size(); ++i) {
    line.pieces[i].lower = step(p.buffers[i].live.lower);
    line.pieces[i].upper = step(p.buffers[i].live.upper);
  }
}

std::optional<timeline> make_timeline(const problem& p) {
  if (p.buffers.empty() || !is_plain(p)) return {};
  timeline line;
  line.pieces.reserve(p.buffers.size());
  tick first = p.buffers[0].live.lower, last = p.buffers[0].live.upper;
  bool same = true;
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    if (!is_plain(b)) return {};
    first = std::min(first, b.live.lower);
    last = std::max(last, b.live.upper);
    bytes alignment = p.alignment_of(i);
    if (!p.memories.empty()) alignment = std::lcm(alignment, p.memories[0].alignment);
    // What the clock counts from is known in the end; the difference comes out right whatever wraps.
    line.pieces.push_back({static_cast<std::uint32_t>(b.live.lower), static_cast<std::uint32_t>(b.live.upper),
                           p.footprint(i), alignment, 0});
    same = same && alignment == line.pieces[0].alignment;
  }
  line.first = first;
  const std::uint64_t ticks = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
  if (ticks <= dense_ticks_per_buffer * p.buffers.size()) {
    line.ticks = static_cast<std::uint32_t>(ticks);
    for (piece& q : line.pieces) {
      q.lower -= static_cast<std::uint32_t>(first);
      q.upper -= static_cast<std::uint32_t>(first);
    }
  } else {
    count_in_steps(p, line);
  }
  if (same) {
    line.alignment = line.pieces[0].alignment;
    for (piece& q : line.pieces) {
      q.spare = align_up(q.size, q.alignment) - q.size;
      q.size += q.spare;
    }
  }
  return line;
}

// Buffers by tick, in a row: those of tick t are of[first[t]] to of[first[t + 1]].
class by_tick {
 public:
  template <class Tick>
  by_tick(const timeline& line, Tick at) : first_(line.ticks + std::size_t{3}, 0), of_(line.pieces.size()) {
    for (const piece& q : line.pieces) ++first_[at(q) + std::size_t{2}];
    for (std::size_t t = 2; t < first_.size(); ++t) first_[t] += first_[t - 1];
    for (index i = 0; i < of_.size(); ++i) of_[first_[at(line.pieces[i]) + std::size_t{1}]++] = i;
  }
  [[nodiscard]] std::span<const index> at(std::size_t t) const {
    return {of_.data() + first_[t], of_.data() + first_[t + 1]};
  }

 private:
  std::vector<std::uint32_t> first_;
  std::vector<index> of_;
};

constexpr std::uint32_t none = ~std::uint32_t{0};

// Neighbours in address order; together they cover [0, top).
struct block {
  bytes lo;
  bytes hi;
  std::uint32_t below;
  std::uint32_t above;
  std::uint32_t hole;  // its place among the holes, or none
};

enum class choice : std::uint8_t { tightest, lowest, highest };

class free_list {
 public:
  explicit free_list(std::size_t buffers) {
    blocks_.reserve(buffers + 16);
    holes_.reserve(64);
  }

  void clear() {
    blocks_.clear();
    spare_.clear();
    holes_.clear();
    last_ = none;
  }

  // A block of `size` bytes above all others.
  std::uint32_t stack(bytes size, bytes alignment) {
    const std::uint32_t b = extend(size, alignment);
    return cut(b, align_up(blocks_[b].lo, alignment), size);
  }

  // A hole above all others, up to `top`.
  void extend_to(bytes top) {
    if (this->top() < top) extend(top - this->top(), 1);
  }

  // The block of `size` bytes that is taken.
  std::uint32_t take(bytes size, bytes alignment, choice how) {
    std::uint32_t best = none;
    bytes best_at = 0;
    bytes slack = max_bytes;
    looked_at_ += holes_.size();
    for (const std::uint32_t h : holes_) {
      const block& b = blocks_[h];
      const bytes at = align_up(b.lo, alignment);
      if (at + size > b.hi) continue;
      const bytes left = b.hi - b.lo - size;
      const bool better = best == none             ? true
                          : how == choice::lowest  ? at < best_at
                          : how == choice::highest ? at > best_at
                                                   : left < slack || (left == slack && at < best_at);
      if (!better) continue;
      best = h;
      best_at = at;
      slack = left;
    }
    if (best == none) {
      best = extend(size, alignment);
      best_at = align_up(blocks_[best].lo, alignment);
    } else if (how == choice::highest) {
      best_at = align_down(blocks_[best].hi - size, alignment);
    }
    return cut(best, best_at, size);
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
  [[nodiscard]] bytes top() const { return last_ == none ? 0 : blocks_[last_].hi; }
  [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }

 private:
  // Takes [at, at + size) out of hole b.
  std::uint32_t cut(std::uint32_t b, bytes at, bytes size) {
    if (at != blocks_[b].lo) b = split(b, at);
    if (at + size != blocks_[b].hi) split(b, at + size);
    unlist(b);
    return b;
  }
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
      const bytes top = this->top();
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

class sweeper {
 public:
  explicit sweeper(const timeline& line)
      : line_{line},
        starts_{line, [](const piece& q) { return q.lower; }},
        ends_{line, [](const piece& q) { return q.upper; }},
        live_(line.ticks),
        block_of_(line.pieces.size()),
        offsets_(line.pieces.size(), 0),
        memory_{line.pieces.size()} {
    bytes live = 0;
    for (std::uint32_t t = 0; t < line.ticks; ++t) {
      for (const index i : ends_.at(t)) live -= line.pieces[i].size;
      for (const index i : starts_.at(t)) live += line.pieces[i].size;
      live_[t] = live;
      if (live > live_[peak_]) peak_ = t;
    }
    for (std::uint32_t t = 0; t <= peak_; ++t) {
      for (const index i : starts_.at(t)) {
        if (line.pieces[i].upper > peak_ && line.pieces[i].size != 0) stack_.push_back(i);
      }
    }
    const auto life = [&](index i) { return line.pieces[i].upper - line.pieces[i].lower; };
    std::stable_sort(stack_.begin(), stack_.end(), [&](index a, index b) { return life(a) > life(b); });
    // The one that rounding adds most to lies highest, where it need not be rounded.
    const auto top = std::max_element(stack_.begin(), stack_.end(),
                                      [&](index a, index b) { return line.pieces[a].spare < line.pieces[b].spare; });
    if (top != stack_.end() && line.pieces[*top].spare != 0) std::rotate(top, top + 1, stack_.end());
  }

  [[nodiscard]] std::uint32_t peak() const { return peak_; }
  [[nodiscard]] bytes most_live() const { return live_[peak_]; }
  [[nodiscard]] std::span<const index> stack() const { return stack_; }

  // The offsets by buffer; nothing where there was too much to look at.
  [[nodiscard]] const std::vector<bytes>* by_ends() {
    return run([this](const piece& q) { return q.upper > next_high_[q.lower] ? choice::highest : choice::lowest; },
               [this](const piece& q) { return q.lower < next_high_[q.upper] ? choice::highest : choice::lowest; },
               true);
  }
  [[nodiscard]] const std::vector<bytes>* by_best_fit() {
    const auto tightest = [](const piece&) { return choice::tightest; };
    return run(tightest, tightest, false);
  }

 private:
  template <class After, class Before>
  const std::vector<bytes>* run(After after, Before before, bool with_high_ticks) {
    const std::uint32_t last = line_.ticks;
    lay_stack(most_live());
    if (with_high_ticks) find_high_after();
    for (std::uint32_t t = peak_ + 1; t < last; ++t) {
      if (!step(ends_.at(t), starts_.at(t), after)) return nullptr;
    }
    lay_stack(memory_.top());
    if (with_high_ticks) find_high_before();
    for (std::uint32_t t = peak_; t > 0; --t) {
      if (!step(starts_.at(t), ends_.at(t), before)) return nullptr;
    }
    return &offsets_;
  }

  void lay_stack(bytes top) {
    memory_.clear();
    for (const index i : stack_) {
      block_of_[i] = memory_.stack(line_.pieces[i].size, line_.pieces[i].alignment);
      offsets_[i] = memory_.offset(block_of_[i]);
    }
    memory_.extend_to(top);
  }

  template <class Choose>
  bool step(std::span<const index> dead, std::span<const index> born, Choose choose) {
    for (const index i : dead) {
      if (line_.pieces[i].size != 0) memory_.give(block_of_[i]);
    }
    for (const index i : born) {
      const piece& q = line_.pieces[i];
      if (q.size == 0) continue;
      block_of_[i] = memory_.take(q.size, q.alignment, choose(q));
      offsets_[i] = memory_.offset(block_of_[i]);
    }
    return memory_.looked_at() <= most_holes_per_buffer * line_.pieces.size();
  }

  // A high tick is the highest of a run of ticks at which at least three quarters of the peak are live.
  [[nodiscard]] bool is_high(std::uint32_t t) const { return live_[t] >= most_live() - most_live() / 4; }

  // By tick t: the first high tick from t on; `ticks` where there is none.
  void find_high_after() {
    next_high_.assign(line_.ticks + std::size_t{1}, line_.ticks);
    for (std::uint32_t t = line_.ticks, high = line_.ticks; t-- > 0;) {
      const bool in_run = t + 1 < line_.ticks && is_high(t + 1);
      if (is_high(t) && (!in_run || live_[t] >= live_[high])) high = t;
      next_high_[t] = high;
    }
  }
  // By tick t, backwards in time: the tick behind the first high one below t; 0 where there is none.
  void find_high_before() {
    next_high_.assign(line_.ticks + std::size_t{1}, 0);
    for (std::uint32_t t = 0, high = 0; t < line_.ticks; ++t) {
      const bool in_run = t > 0 && is_high(t - 1);
      if (is_high(t) && (!in_run || live_[t] >= live_[high - 1])) high = t + 1;
      next_high_[t + 1] = high;
    }
  }

  const timeline& line_;
  by_tick starts_, ends_;
  std::vector<bytes> live_;  // by tick
  std::uint32_t peak_ = 0;
  std::vector<index> stack_;  // live at the peak, from the lowest address up
  std::vector<std::uint32_t> next_high_;
  std::vector<std::uint32_t> block_of_;
  std::vector<bytes> offsets_;
  free_list memory_;
};

}  // namespace

std::optional<swept> sweep(const problem& p, double tolerated) {
  const std::optional<timeline> line = make_timeline(p);
  if (!line) return {};
  sweeper over{*line};

  std::optional<swept> best;
  argument why{.at = line->sparse.empty() ? line->first + static_cast<tick>(over.peak()) : line->sparse[over.peak()]};
  bytes spared = 0;  // by the one that lies highest: it need not be rounded
  for (const index i : over.stack()) {
    why.bound += line->pieces[i].size;
    spared = std::max(spared, line->pieces[i].spare);
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
