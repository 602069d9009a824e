#include "plan/greedy/occupancy.hpp"

#include <algorithm>
#include <bit>

#include "plan/policy.hpp"

namespace berth::plan {
occupancy::occupancy(const instance& in)
    : in_{in},
      leaves_{std::bit_ceil(std::max(in.sections, 1U))},
      tree_(2 * std::size_t{leaves_}),
      offsets_(in.items.size(), no_offset) {}

void occupancy::clear() {
  for (const std::uint32_t at : touched_) {
    tree_[at].whole.clear();
    tree_[at].any.clear();
  }
  touched_.clear();
  std::fill(offsets_.begin(), offsets_.end(), no_offset);
}

void occupancy::insert(std::uint32_t i, units offset) {
  offsets_[i] = offset;
  // Adds an interval. Returns whether the list changed.
  const auto add = [this](taken_list& list, units lo, units hi) {
    // The intervals that touch [lo, hi] are merged into one.
    auto first = std::lower_bound(list.begin(), list.end(), lo, [](const taken& t, units v) { return t.hi < v; });
    ++looks_;
    if (first != list.end() && first->lo <= lo && hi <= first->hi) return false;
    looks_ += static_cast<std::uint64_t>(list.end() - first) / policy::intervals_moved_a_look;
    auto last = first;
    while (last != list.end() && last->lo <= hi) {
      lo = std::min(lo, last->lo);
      hi = std::max(hi, last->hi);
      ++last;
    }
    if (first == last) {
      list.insert(first, {lo, hi});
    } else {
      *first = {lo, hi};
      list.erase(first + 1, last);
    }
    return true;
  };
  const auto touch = [this](std::uint32_t at) -> tree_node& {
    tree_node& n = tree_[at];
    if (n.any.empty()) touched_.push_back(at);
    return n;
  };
  for (const section_range& r : in_.ranges_of(in_.items[i])) {
    const units top = offset + r.height;
    // Ancestors of the two ends are the ancestors of every tile.
    std::uint32_t left = (r.first + leaves_) >> 1;
    std::uint32_t right = (r.last - 1 + leaves_) >> 1;
    // They come first: what a node knows its parent knows, so that the way up ends at one that learns nothing.
    bool left_learns = true;
    bool right_learns = true;
    for (; left != right && (left_learns || right_learns); left >>= 1, right >>= 1) {
      left_learns = left_learns && add(touch(left).any, offset, top);
      right_learns = right_learns && add(touch(right).any, offset, top);
    }
    for (bool learns = left_learns && right_learns; left != 0 && learns; left >>= 1) {
      learns = add(touch(left).any, offset, top);
    }
    std::uint32_t lo = r.first + leaves_;
    std::uint32_t hi = r.last + leaves_;
    for (; lo < hi; lo >>= 1, hi >>= 1) {
      if (lo & 1) {
        tree_node& n = touch(lo++);
        add(n.whole, offset, top);
        add(n.any, offset, top);
      }
      if (hi & 1) {
        tree_node& n = touch(--hi);
        add(n.whole, offset, top);
        add(n.any, offset, top);
      }
    }
  }
}

void occupancy::add_cursor(const taken_list& list, units height) {
  if (!list.empty()) cursors_.push_back({list.data(), list.data() + list.size(), height});
}

void occupancy::collect(std::uint32_t i) {
  cursors_.clear();
  const item& it = in_.items[i];
  for (const section_range& r : in_.ranges_of(it)) {
    std::uint32_t lo = r.first + leaves_;
    std::uint32_t hi = r.last + leaves_;
    for (; lo < hi; lo >>= 1, hi >>= 1) {
      if (lo & 1) add_cursor(tree_[lo++].any, r.height);
      if (hi & 1) add_cursor(tree_[--hi].any, r.height);
    }
    std::uint32_t left = (r.first + leaves_) >> 1;
    std::uint32_t right = (r.last - 1 + leaves_) >> 1;
    for (; left != 0; left >>= 1, right >>= 1) {
      add_cursor(tree_[left].whole, r.height);
      if (right != left) add_cursor(tree_[right].whole, r.height);
    }
  }
  // Placed items that only a link knows: one list for each height that this item has under them.
  linked_.clear();
  for (const item_link& l : in_.links_of(it)) {
    if (offsets_[l.other] == no_offset) continue;
    linked_.push_back({l.height, {offsets_[l.other], offsets_[l.other] + l.other_height}});
  }
  looks_ += linked_.size();
  std::sort(linked_.begin(), linked_.end(), [](const linked& x, const linked& y) {
    return x.height != y.height ? x.height < y.height : x.at.lo < y.at.lo;
  });
  merged_.clear();
  merged_.reserve(linked_.size());
  for (std::size_t k = 0; k < linked_.size();) {
    const units height = linked_[k].height;
    const std::size_t begin = merged_.size();
    for (; k < linked_.size() && linked_[k].height == height; ++k) {
      const taken& next = linked_[k].at;
      if (merged_.size() != begin && next.lo <= merged_.back().hi) {
        merged_.back().hi = std::max(merged_.back().hi, next.hi);
      } else {
        merged_.push_back(next);
      }
    }
    cursors_.push_back({merged_.data() + begin, merged_.data() + merged_.size(), height});
  }
}

// Returns the lowest aligned offset from x on that no list forbids. Cursors only move forward.
units occupancy::lift(units x, units alignment) {
  x = round_up(x, alignment);
  std::size_t agreed = 0;
  for (std::size_t k = 0; agreed < cursors_.size(); k = k + 1 == cursors_.size() ? 0 : k + 1) {
    cursor& c = cursors_[k];
    const taken* const before = c.at;
    while (c.at != c.end && c.at->hi <= x) ++c.at;
    looks_ += static_cast<std::uint64_t>(c.at - before) + 1;
    if (c.at != c.end && c.at->lo < x + c.height) {
      x = round_up(c.at->hi, alignment);
      agreed = 0;
    } else {
      ++agreed;
    }
  }
  return x;
}

units occupancy::find(std::uint32_t i, units from) {
  collect(i);
  return lift(from, in_.items[i].alignment);
}

bool occupancy::is_free(std::uint32_t i, units offset) {
  collect(i);
  return std::all_of(cursors_.begin(), cursors_.end(), [&](const cursor& c) {
    const taken* t = std::partition_point(c.at, c.end, [&](const taken& q) { return q.hi <= offset; });
    return t == c.end || t->lo >= offset + c.height;
  });
}

}  // namespace berth::plan
