#include "scratch/hole.hpp"

namespace berth::detail {

namespace {

constexpr const char* overwritten = "scratch: a block was written after it was given back";

// Returns the node. Contract: it was not overwritten.
scratch_hole* sound(scratch_hole* hole, source_location where) noexcept {
  if (hole != nullptr) expects(hole->mark == hole->mark_of(), overwritten, where);
  return hole;
}

bool is_before(const scratch_hole* a, const scratch_hole* b) noexcept {
  return a->size != b->size ? a->size < b->size : a < b;
}

}  // namespace

void scratch_holes::insert(scratch_hole* hole, source_location where) noexcept {
  drawn_ = drawn_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's generator; its high bits decide
  hole->priority = drawn_;
  scratch_hole** link = &root_;
  while (sound(*link, where) != nullptr && (*link)->priority >= hole->priority)
    link = is_before(hole, *link) ? &(*link)->left : &(*link)->right;
  // The new key splits the subtree that was there.
  scratch_hole* rest = *link;
  *link = hole;
  scratch_hole** before = &hole->left;
  scratch_hole** behind = &hole->right;
  while (sound(rest, where) != nullptr) {
    if (is_before(rest, hole)) {
      *before = rest;
      before = &rest->right;
      rest = *before;
    } else {
      *behind = rest;
      behind = &rest->left;
      rest = *behind;
    }
  }
  *before = nullptr;
  *behind = nullptr;
}

void scratch_holes::erase(scratch_hole* hole, source_location where) noexcept {
  scratch_hole** link = &root_;
  while (sound(*link, where) != hole) {
    expects(*link != nullptr, overwritten, where);
    link = is_before(hole, *link) ? &(*link)->left : &(*link)->right;
  }
  // Its two subtrees are merged in its place.
  scratch_hole* before = sound(hole->left, where);
  scratch_hole* behind = sound(hole->right, where);
  while (before != nullptr && behind != nullptr) {
    if (before->priority >= behind->priority) {
      *link = before;
      link = &before->right;
      before = sound(*link, where);
    } else {
      *link = behind;
      link = &behind->left;
      behind = sound(*link, where);
    }
  }
  *link = before != nullptr ? before : behind;
}

scratch_hole* scratch_holes::at_least(std::size_t size, source_location where) const noexcept {
  scratch_hole* best = nullptr;
  for (scratch_hole* hole = sound(root_, where); hole != nullptr;) {
    if (hole->size >= size) best = hole;
    hole = sound(hole->size >= size ? hole->left : hole->right, where);
  }
  return best;
}

}  // namespace berth::detail
