// The slow paths of an arena: requests that search holes, and blocks released out of order.
#include "berth/scratch/scratch_arena.hpp"

#include <algorithm>
#include <cstdio>

#include "scratch/chunk.hpp"
#include "scratch/hole.hpp"
#include "scratch/watch.hpp"

namespace berth {

using detail::scratch_chunk;
using detail::scratch_hole;
using detail::scratch_tag;
using detail::start_of;
using detail::tag_hole_follows;
using detail::tag_of_hole;

namespace {

// Returns where the bytes of the lowest block above `start` begin.
std::byte* aligned_data(std::byte* start, std::size_t alignment) noexcept {
  const auto least = reinterpret_cast<std::uintptr_t>(start) + sizeof(detail::scratch_header);
  return start + (((least + alignment - 1) & ~std::uintptr_t{alignment - 1}) - reinterpret_cast<std::uintptr_t>(start));
}

}  // namespace

std::size_t scratch_arena::footprint() const noexcept {
  return lower_ + (chunk_ != nullptr ? static_cast<std::size_t>(top_ - chunk_->begin()) : 0);
}

// Returns whether the next request shall look at the holes before the stack grows. Small holes are not worth the
// search. Neither are holes that have not served the last sixteen requests, while they are less than what is in use.
bool scratch_arena::prefers_holes() const noexcept {
  const std::size_t offered = dead_ - (emptying_ != nullptr ? emptying_->dead : 0);
  return offered > in_use() / 8 && (misses_ < 16 || offered > in_use());
}

// Opens the fast paths as far as I6 and I7 allow. Every slow operation ends here.
void scratch_arena::set_gates() noexcept {
  const bool tidy = chunk_ != nullptr && chunk_->dead == 0 && spare_ == nullptr && !watch_ && !ending_;
  const std::uint64_t blocks = given();
  base_ = tidy ? look_at_ : blocks;
  countdown_ = static_cast<std::ptrdiff_t>(blocks - base_);
  if (chunk_ == nullptr || prefers_holes() || detail::watched_zone() != 0) {
    limit_ = top_;
  } else {
    const std::size_t most = std::min(need_, used_ + dead_) - lower_;
    limit_ = chunk_->begin() + std::min(most, chunk_->capacity());
  }
}

void* scratch_arena::allocate_slow(std::size_t size, std::size_t alignment, source_location where) noexcept {
  expects(is_power_of_two(alignment) && alignment >= 64 && alignment <= max_alignment,
          "scratch: an alignment is a power of two from 64 to 1 GiB", where);
  check_thread(where);
  const std::size_t zone = detail::watched_zone();
  return zone != 0 ? allocate_watched(size, alignment, zone, where) : allocate_unwatched(size, alignment, where);
}

void* scratch_arena::allocate_for_c(std::size_t size, std::size_t alignment, source_location where) noexcept {
  if (size > max_block) return nullptr;
  if (void* const data = allocate_fast(size, alignment)) return data;
  for_c_ = true;
  void* const data = allocate_slow(size, alignment, where);
  for_c_ = false;
  return data;
}

// Places a block between two red zones and enters it in the table of watched blocks.
void* scratch_arena::allocate_watched(std::size_t size, std::size_t alignment, std::size_t zone,
                                      source_location where) noexcept {
  const std::size_t aligned = (zone + alignment - 1) & ~(alignment - 1);  // the front zone
  if (size > max_block - aligned - zone) return nullptr;
  auto* const block = static_cast<std::byte*>(allocate_unwatched(aligned + size + zone, alignment, where));
  if (block == nullptr) return nullptr;
  const detail::watch_record r{.next = nullptr,
                               .arena = this,
                               .block = block,
                               .data = block + aligned,
                               .size = size,
                               .front = aligned,
                               .back = zone,
                               .made = where,
                               .must_be_freed = for_c_};
  if (detail::watch_block(r)) return r.data;
  release(block, any_alignment, where);
  return nullptr;
}

void* scratch_arena::allocate_unwatched(std::size_t size, std::size_t alignment, source_location where) noexcept {
  for (bool grown = false;;) {
    void* data = nullptr;
    if (chunk_ != nullptr) {
      const bool holes_first = prefers_holes();
      if (holes_first) {
        data = take_hole(size, alignment, where);
        misses_ = data != nullptr ? 0 : misses_ + 1;
      }
      if (data == nullptr) data = push_block(size, alignment);
      if (data == nullptr && !holes_first) data = take_hole(size, alignment, where);
    }
    if (data != nullptr) {
      used_ = std::max(used_, in_use());
      need_ = std::max(need_, footprint());
      peak_ = std::max(peak_, used_);
      if (watch_ && falls_ != 0 && !is_oversized()) start_window();
      set_gates();
      return data;
    }
    if (emptying_ != nullptr) {
      stop_emptying(where);
    } else {
      if (grown || !grow(size, alignment, where)) return nullptr;
      grown = true;
    }
  }
}

// Places a block on top of the current chunk as the fast path would, up to the chunk's end. Null if it does not fit.
void* scratch_arena::push_block(std::size_t size, std::size_t alignment) noexcept {
  std::byte* const before = limit_;
  limit_ = chunk_->end();
  void* data = allocate_fast(size, alignment);
  limit_ = before;
  return data;
}

// Places a block at the low end of the smallest hole that holds it. Null if there is none. The bytes before and behind
// the block remain holes.
void* scratch_arena::take_hole(std::size_t size, std::size_t alignment, source_location where) noexcept {
  const std::size_t reach = detail::scratch_reach(size);
  const std::size_t least = sizeof(detail::scratch_header) + reach;
  scratch_hole* hole = holes_.at_least(least, where);
  if (hole == nullptr) return nullptr;
  std::byte* data = aligned_data(hole->begin(), alignment);
  if (static_cast<std::size_t>(data - hole->begin()) > hole->size - reach) {
    // Its place in this hole is not aligned. A hole of this size has an aligned one.
    hole = holes_.at_least(least + (alignment - 64), where);
    if (hole == nullptr) return nullptr;
    data = aligned_data(hole->begin(), alignment);
  }
  scratch_chunk* const chunk = hole->chunk;
  std::byte* const from = hole->begin();
  std::byte* const to = hole->end();
  std::byte* const start = data - sizeof(detail::scratch_header);
  std::byte* const end = data + reach;
  remove_hole(hole, where);
  write_block(start, data, end, size);
  if (start != from) add_hole(chunk, from, start, where);
  if (end != to) add_hole(chunk, end, to, where);
  ++countdown_;
  return data;
}

void scratch_arena::add_hole(scratch_chunk* chunk, std::byte* from, std::byte* to, source_location where) noexcept {
  auto* hole = reinterpret_cast<scratch_hole*>(from);
  detail::unpoison(hole, sizeof *hole);
  detail::unpoison(&scratch_tag(to), sizeof(std::uintptr_t));
  hole->size = static_cast<std::size_t>(to - from);
  hole->chunk = chunk;
  hole->mark = hole->mark_of();
  scratch_tag(from) |= tag_hole_follows;
  scratch_tag(to) = reinterpret_cast<std::uintptr_t>(from) | tag_of_hole;
  if (chunk != emptying_) holes_.insert(hole, where);
  dead_ += hole->size;
  chunk->dead += hole->size;
}

// Makes the bytes of a hole the caller's.
void scratch_arena::remove_hole(scratch_hole* hole, source_location where) noexcept {
  expects(hole->mark == hole->mark_of(), "scratch: a block was written after it was given back", where);
  if (hole->chunk != emptying_) holes_.erase(hole, where);
  dead_ -= hole->size;
  hole->chunk->dead -= hole->size;
  scratch_tag(hole->begin()) &= ~tag_hole_follows;
  detail::poison(&scratch_tag(hole->end()), sizeof(std::uintptr_t));
  detail::poison(hole, sizeof *hole);
}

// Returns the chunk of the live block with these bounds; null if there is no such block in this arena. O(chunks).
scratch_chunk* scratch_arena::chunk_of(std::byte* data, std::byte* end) const noexcept {
  const std::byte* top = top_;
  for (scratch_chunk* chunk = chunk_; chunk != nullptr; chunk = chunk->below) {
    if (data > chunk->begin() && data < top) {
      if (end > top) return nullptr;
      const std::uintptr_t tag = scratch_tag(end);
      const std::byte* start = start_of(tag);
      const bool lives = (tag & tag_of_hole) == 0 && start >= chunk->begin() && start < data;
      return lives ? chunk : nullptr;
    }
    if (chunk->below != nullptr) top = chunk->below->end();
  }
  return nullptr;
}

void scratch_arena::release_slow(std::byte* data, std::byte* end, source_location where) noexcept {
  scratch_chunk* const chunk = chunk_of(data, end);
  expects(chunk != nullptr, "scratch: a block is given back that does not live in this arena", where);
  std::byte* from = start_of(scratch_tag(end));
  std::byte* to = end;
  if ((scratch_tag(end) & tag_hole_follows) != 0) {
    auto* above = reinterpret_cast<scratch_hole*>(end);
    to = above->end();
    remove_hole(above, where);
  }
  scratch_tag(end) |= tag_of_hole;  // stays there when holes are joined, so that a second release is noticed
  detail::poison(from, static_cast<std::size_t>(end - from));
  if ((scratch_tag(from) & tag_of_hole) != 0) {
    auto* below = reinterpret_cast<scratch_hole*>(start_of(scratch_tag(from)));
    const bool inside = below->begin() >= chunk->begin() && below->begin() < from;
    expects(inside, "scratch: a block's end was overwritten", where);
    remove_hole(below, where);
    from = below->begin();
  }
  if (chunk == chunk_ && to == top_) {
    top_ = from;
    if (top_ == chunk->begin()) chunk_fell_empty(where);
  } else {
    add_hole(chunk, from, to, where);
    misses_ = 0;
    if (chunk != chunk_ && chunk->dead == chunk->capacity()) unlink_chunk(chunk, where);
  }
  if (given() >= look_at_) look(where);
  set_gates();
}

// Releases a watched block. Any other block that comes here is broken.
void scratch_arena::release_other(std::byte* data, source_location where) noexcept {
  detail::watch_record r;
  if (detail::unwatch_block(data, this, &r, where)) {
    release(r.block, any_alignment, where);
    return set_gates();  // the fast path must not place the next block: it knows of no watch
  }
  const auto* header = reinterpret_cast<const detail::scratch_header*>(data) - 1;
  expects(header->guard != detail::zone_word, "scratch: a block is given back that does not live in this arena", where);
  broken_block(header, where);
}

scratch_statistics scratch_arena::statistics() const noexcept {
  return {.in_use = in_use(),
          .peak = peak_,
          .reserved = reserved_,
          .chunks = chunks_,
          .growths = growths_,
          .fallbacks = given()};
}

void scratch_arena::wrong_thread(source_location where) noexcept {
  contract_violation("scratch: used or given back on a thread that its arena does not belong to", where);
}

// The guard before the data holds the owner in its low bits. High bits that differ from the guard's were overwritten:
// they are the ones next to the data.
void scratch_arena::broken_block(const detail::scratch_header* header, source_location where) noexcept {
  const std::uint64_t owner = header->guard ^ detail::scratch_guard;
  const auto size = static_cast<unsigned long long>(header->size);
  const bool before = owner >> 48 != 0;
  if (!before && owner != 0 && owner != detail::thread_token()) wrong_thread(where);
  char text[96];
  std::snprintf(text, sizeof text, "scratch: bytes were written %s of a block of %llu bytes",
                before ? "before the start" : "past the end", size);
  contract_violation(text, where);
}

}  // namespace berth
