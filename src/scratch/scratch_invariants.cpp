// The invariants of an arena as a function.
#include "berth/scratch/scratch_arena.hpp"
#include "scratch/chunk.hpp"
#include "scratch/hole.hpp"

namespace berth {

namespace {

using detail::scratch_hole;

struct walked {
  std::size_t holes = 0;
  std::size_t bytes = 0;  // in holes
};

// Walks down the tags of a chunk from `top`, which is the end of its last block or hole. Tests I1, I2 and I3.
walked walk_down(detail::scratch_chunk* chunk, std::byte* top, source_location where) noexcept {
  walked out;
  bool hole_above = false;
  for (std::byte* end = top; end != chunk->begin();) {
    const std::uintptr_t tag = detail::scratch_tag(end);
    auto* const start = detail::start_of(tag);
    const bool hole = (tag & detail::tag_of_hole) != 0;
    expects(start >= chunk->begin() && start < end, "scratch: invariant I1: a chunk is not tiled", where);
    expects(((tag & detail::tag_hole_follows) != 0) == hole_above, "scratch: invariant I3: a tag is wrong", where);
    expects(!hole || !hole_above, "scratch: invariant I2: two holes adjoin", where);
    if (hole) {
      const auto* node = reinterpret_cast<const scratch_hole*>(start);
      const bool same = node->size == static_cast<std::size_t>(end - start) && node->chunk == chunk;
      expects(same && node->mark == node->mark_of(), "scratch: invariant I4: a hole is not what its tag says", where);
      ++out.holes;
      out.bytes += node->size;
    }
    hole_above = hole;
    end = start;
  }
  expects(chunk->tag == (hole_above ? detail::tag_hole_follows : 0), "scratch: invariant I3: a tag is wrong", where);
  expects(out.bytes == chunk->dead, "scratch: invariant I4: a chunk's holes are miscounted", where);
  return out;
}

// Returns the number of nodes. Tests the order of the tree: by size and address, and by priority from the root down.
std::size_t walk_tree(const scratch_hole* node, const scratch_hole* after, const scratch_hole* before,
                      source_location where) noexcept {
  if (node == nullptr) return 0;
  const auto less = [](const scratch_hole* a, const scratch_hole* b) {
    return a->size != b->size ? a->size < b->size : a < b;
  };
  const bool ordered = (after == nullptr || less(after, node)) && (before == nullptr || less(node, before));
  const bool heap = (node->left == nullptr || node->left->priority <= node->priority) &&
                    (node->right == nullptr || node->right->priority <= node->priority);
  expects(ordered && heap, "scratch: invariant I4: the tree of holes is out of order", where);
  return 1 + walk_tree(node->left, after, node, where) + walk_tree(node->right, node, before, where);
}

}  // namespace

void scratch_arena::check_invariants(source_location where) const noexcept {
  walked all;
  std::size_t lower = 0;
  std::size_t reserved = spare_ != nullptr ? spare_->size : 0;
  std::uint32_t chunks = spare_ != nullptr ? 1 : 0;
  for (detail::scratch_chunk* chunk = chunk_; chunk != nullptr; chunk = chunk->below) {
    const walked here = walk_down(chunk, chunk == chunk_ ? top_ : chunk->end(), where);
    if (chunk != emptying_) all.holes += here.holes;
    all.bytes += here.bytes;
    reserved += chunk->size;
    ++chunks;
    if (chunk == chunk_) continue;
    expects(here.bytes < chunk->capacity(), "scratch: invariant I5: a chunk holds no block", where);
    lower += chunk->capacity();
  }
  const bool hole_at_top =
      chunk_ != nullptr && top_ != chunk_->begin() && (detail::scratch_tag(top_) & detail::tag_of_hole) != 0;
  expects(!hole_at_top, "scratch: invariant I2: a hole adjoins the top", where);
  expects(walk_tree(holes_.root(), nullptr, nullptr, where) == all.holes && all.bytes == dead_,
          "scratch: invariant I4: the holes are miscounted", where);
  expects(lower == lower_ && reserved == reserved_ && chunks == chunks_, "scratch: invariant I5: chunks are miscounted",
          where);
  const bool tidy = chunk_ != nullptr && chunk_->dead == 0 && spare_ == nullptr && !watch_ && !ending_;
  expects(countdown_ >= 0 || tidy, "scratch: invariant I6: the fast path is open", where);
  const auto ahead = static_cast<std::size_t>(limit_ - top_);
  expects(top_ <= limit_ && footprint() + ahead <= need_ && in_use() + ahead <= used_ && used_ <= peak_,
          "scratch: invariant I7: a peak would be missed", where);
}

}  // namespace berth
