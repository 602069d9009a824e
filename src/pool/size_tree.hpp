// Free extents of one lane, ordered by size, then by offset. Finds the smallest that is large enough in O(log n) steps.
//
// A treap (Aragon, Seidel 1989): a search tree by (size, offset) that is a heap by priority. The priority is a hash of
// the offset, so a node needs only its two links, which are those of a bin's list (bin_before, bin_after). The expected
// depth is 2 ln n, in whatever order extents come and go.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "pool/extent.hpp"

namespace berth::detail {

class size_tree {
 public:
  [[nodiscard]] bool has_only(const extent* e) const noexcept {
    return root_ == e && e->bin_before == nullptr && e->bin_after == nullptr;
  }

  void insert(extent* e) noexcept {
    extent** at = &root_;
    const std::uint64_t mine = priority(*e);
    while (*at != nullptr && priority(**at) >= mine) at = &(before(*e, **at) ? (*at)->bin_before : (*at)->bin_after);
    split(*at, *e, e->bin_before, e->bin_after);
    *at = e;
  }

  // Removes an extent that was inserted with this size and offset. It may have others by now.
  void erase(extent* e, bytes size, bytes offset) noexcept {
    extent** at = &root_;
    while (*at != e) {
      const extent& here = **at;
      const bool left = size != here.size ? size < here.size : offset < here.offset;
      at = &(left ? (*at)->bin_before : (*at)->bin_after);
    }
    *at = merge(e->bin_before, e->bin_after);
  }

  // Returns the first extent of at least `size` bytes, or of that size and at least that offset; null if there is none.
  [[nodiscard]] extent* first(bytes size, bytes offset = 0) const noexcept {
    extent* best = nullptr;
    for (extent* e = root_; e != nullptr;) {
      const bool enough = e->size != size ? e->size > size : e->offset >= offset;
      if (enough) best = e;
      e = enough ? e->bin_before : e->bin_after;
    }
    return best;
  }
  [[nodiscard]] extent* after(const extent& e) const noexcept { return first(e.size, e.offset + 1); }
  [[nodiscard]] extent* last() const noexcept {
    extent* e = root_;
    while (e != nullptr && e->bin_after != nullptr) e = e->bin_after;
    return e;
  }

  // Calls f in no particular order. `f` must not change the tree.
  template <class Function>
  void for_each(Function&& f) const {
    visit(root_, f);
  }
  // O(n). For tests.
  [[nodiscard]] bool check() const noexcept { return check(root_, nullptr, nullptr); }

 private:
  [[nodiscard]] static std::uint64_t priority(const extent& e) noexcept {
    const std::uint64_t x = e.offset * 0x9E3779B97F4A7C15u;
    return (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9u;
  }
  [[nodiscard]] static bool before(const extent& a, const extent& b) noexcept {
    return a.size != b.size ? a.size < b.size : a.offset < b.offset;
  }
  // Divides a tree into the extents before e and those after it.
  static void split(extent* tree, const extent& e, extent*& left, extent*& right) noexcept {
    extent** low = &left;
    extent** high = &right;
    while (tree != nullptr) {
      if (before(*tree, e)) {
        *low = tree;
        low = &tree->bin_after;
        tree = *low;
      } else {
        *high = tree;
        high = &tree->bin_before;
        tree = *high;
      }
    }
    *low = *high = nullptr;
  }
  [[nodiscard]] static extent* merge(extent* left, extent* right) noexcept {
    extent* whole = nullptr;
    extent** at = &whole;
    while (left != nullptr && right != nullptr) {
      if (priority(*left) >= priority(*right)) {
        *at = left;
        at = &left->bin_after;
        left = *at;
      } else {
        *at = right;
        at = &right->bin_before;
        right = *at;
      }
    }
    *at = left != nullptr ? left : right;
    return whole;
  }
  template <class Function>
  static void visit(extent* e, Function&& f) {
    for (; e != nullptr; e = e->bin_after) {
      f(*e);
      visit(e->bin_before, f);
    }
  }
  [[nodiscard]] static bool check(const extent* e, const extent* low, const extent* high) noexcept {
    if (e == nullptr) return true;
    if ((low != nullptr && !before(*low, *e)) || (high != nullptr && !before(*e, *high))) return false;
    for (const extent* child : {e->bin_before, e->bin_after}) {
      if (child != nullptr && priority(*child) > priority(*e)) return false;
    }
    return check(e->bin_before, low, e) && check(e->bin_after, e, high);
  }

  extent* root_ = nullptr;
};

}  // namespace berth::detail
