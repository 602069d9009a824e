// Addresses as an allocator at run time has them: stretches that are taken, and holes between them.
//
// Few holes are looked through one by one, which no order of them beats. Once there have been many, they are sorted by
// size too, and the tightest is found in O(log holes).
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "berth/core/bytes.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

enum class choice : std::uint8_t { tightest, lowest, highest };

class free_list {
 public:
  explicit free_list(std::size_t buffers) {
    stretches_.reserve(buffers + 16);
    holes_.reserve(64);
  }

  void clear() {
    stretches_.clear();
    spare_.clear();
    holes_.clear();
    by_size_.clear();
    sorted_ = false;
    last_ = none;
  }

  // Takes a stretch of `size` bytes above all others.
  std::uint32_t stack(bytes size, bytes alignment) {
    const std::uint32_t b = extend(size, alignment);
    return cut(b, align_up(stretches_[b].lo, alignment), size);
  }

  // Adds a hole above all others, up to `top`.
  void extend_to(bytes top) {
    if (this->top() < top) extend(top - this->top(), 1);
  }

  // Takes a stretch of `size` bytes, and returns it.
  std::uint32_t take(bytes size, bytes alignment, choice how) {
    if (sorted_ && how == choice::tightest) return take_tightest(size, alignment);
    std::uint32_t best = none;
    bytes best_at = 0;
    bytes slack = max_bytes;
    looked_at_ += holes_.size();
    for (const std::uint32_t h : holes_) {
      const stretch& b = stretches_[h];
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
      best_at = align_up(stretches_[best].lo, alignment);
    } else if (how == choice::highest) {
      best_at = align_down(stretches_[best].hi - size, alignment);
    }
    return cut(best, best_at, size);
  }

  void give(std::uint32_t b) {
    const std::uint32_t below = stretches_[b].below;
    if (below != none && stretches_[below].hole != none) {
      merge(below, b);
      b = below;
    } else {
      list(b);
    }
    const std::uint32_t above = stretches_[b].above;
    if (above != none && stretches_[above].hole != none) {
      unlist(above);
      merge(b, above);
    }
  }

  [[nodiscard]] bytes offset(std::uint32_t b) const { return stretches_[b].lo; }
  [[nodiscard]] bytes top() const { return last_ == none ? 0 : stretches_[last_].hi; }
  [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  // Neighbours in address order; together they cover [0, top).
  struct stretch {
    bytes lo;
    bytes hi;
    std::uint32_t below;
    std::uint32_t above;
    std::uint32_t hole;  // its place among the holes, or none
  };

  struct sized {
    bytes size;
    bytes lo;
    std::uint32_t stretch;
    friend bool operator<(const sized& a, const sized& b) { return a.size != b.size ? a.size < b.size : a.lo < b.lo; }
  };

  [[nodiscard]] sized sized_of(std::uint32_t b) const {
    return {stretches_[b].hi - stretches_[b].lo, stretches_[b].lo, b};
  }

  // Takes the tightest hole as take() does. Only holes that alignment makes too small lie before it.
  std::uint32_t take_tightest(bytes size, bytes alignment) {
    for (auto h = by_size_.lower_bound({size, 0, none}); h != by_size_.end(); ++h) {
      ++looked_at_;
      const bytes at = align_up(h->lo, alignment);
      if (at + size <= h->lo + h->size) return cut(h->stretch, at, size);
    }
    const std::uint32_t b = extend(size, alignment);
    return cut(b, align_up(stretches_[b].lo, alignment), size);
  }

  // Takes [at, at + size) out of hole b.
  std::uint32_t cut(std::uint32_t b, bytes at, bytes size) {
    if (at != stretches_[b].lo) b = split(b, at);
    if (at + size != stretches_[b].hi) split(b, at + size);
    unlist(b);
    return b;
  }
  void list(std::uint32_t b) {
    stretches_[b].hole = static_cast<std::uint32_t>(holes_.size());
    holes_.push_back(b);
    if (sorted_) {
      by_size_.insert(sized_of(b));
    } else if (holes_.size() > policy::most_unsorted_holes) {
      sorted_ = true;
      for (const std::uint32_t h : holes_) by_size_.insert(sized_of(h));
    }
  }
  void unlist(std::uint32_t b) {
    if (sorted_) by_size_.erase(sized_of(b));
    holes_[stretches_[b].hole] = holes_.back();
    stretches_[holes_.back()].hole = stretches_[b].hole;
    holes_.pop_back();
    stretches_[b].hole = none;
  }
  std::uint32_t make(const stretch& b) {
    if (spare_.empty()) {
      stretches_.push_back(b);
      return static_cast<std::uint32_t>(stretches_.size() - 1);
    }
    const std::uint32_t at = spare_.back();
    spare_.pop_back();
    stretches_[at] = b;
    return at;
  }
  // Moves the end of hole b to `hi`.
  void resize(std::uint32_t b, bytes hi) {
    if (sorted_) by_size_.erase(sized_of(b));
    stretches_[b].hi = hi;
    if (sorted_) by_size_.insert(sized_of(b));
  }
  // Cuts hole b at `at`, and returns the hole above it.
  std::uint32_t split(std::uint32_t b, bytes at) {
    const std::uint32_t upper = make({at, stretches_[b].hi, b, stretches_[b].above, none});
    if (stretches_[b].above != none) stretches_[stretches_[b].above].below = upper;
    if (last_ == b) last_ = upper;
    resize(b, at);
    stretches_[b].above = upper;
    list(upper);
    return upper;
  }
  void merge(std::uint32_t b, std::uint32_t above) {
    resize(b, stretches_[above].hi);
    stretches_[b].above = stretches_[above].above;
    if (stretches_[b].above != none) stretches_[stretches_[b].above].below = b;
    if (last_ == above) last_ = b;
    spare_.push_back(above);
  }
  // Makes a hole at the top, from the last hole on if there is one.
  std::uint32_t extend(bytes size, bytes alignment) {
    if (last_ == none || stretches_[last_].hole == none) {
      const bytes top = this->top();
      const std::uint32_t b = make({top, top, last_, none, none});
      if (last_ != none) stretches_[last_].above = b;
      last_ = b;
      list(b);
    }
    resize(last_, align_up(stretches_[last_].lo, alignment) + size);
    return last_;
  }

  std::vector<stretch> stretches_;
  std::vector<std::uint32_t> spare_;
  std::vector<std::uint32_t> holes_;
  std::set<sized> by_size_;  // holes, where sorted_
  bool sorted_ = false;
  std::uint32_t last_ = none;
  std::uint64_t looked_at_ = 0;
};

}  // namespace berth::plan
