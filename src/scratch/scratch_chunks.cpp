// The chunks of an arena: how it grows, and how it shrinks.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "berth/core/hook.hpp"
#include "berth/scratch/scratch_arena.hpp"
#include "scratch/chunk.hpp"
#include "scratch/hole.hpp"

namespace berth {

using detail::least_chunk;
using detail::scratch_chunk;

namespace {

constexpr std::uint32_t whole_rounds = 4;  // of use that the arena watches before it shrinks
constexpr std::uint32_t longest_period = std::uint32_t{1} << 20;

constexpr chunk_source heap_source{[](void*, std::size_t size) noexcept { return std::aligned_alloc(64, size); },
                                   [](void*, void* chunk, std::size_t) noexcept { std::free(chunk); }, nullptr};

constinit std::atomic<const chunk_source*> thread_source{&heap_source};
constinit std::atomic<std::uint64_t> total_reserved{0};
constinit std::atomic<std::uint64_t> total_peak{0};
constinit std::atomic<std::uint64_t> total_growths{0};

void count_taken(std::size_t size) noexcept {
  const std::uint64_t now = total_reserved.fetch_add(size, std::memory_order_relaxed) + size;
  std::uint64_t peak = total_peak.load(std::memory_order_relaxed);
  while (peak < now && !total_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  total_growths.fetch_add(1, std::memory_order_relaxed);
}

// Calls `use` for each hole of a chunk, from the end of its last part down. O(blocks and holes of the chunk).
template <class Use>
void for_each_hole(scratch_chunk* chunk, std::byte* top, Use&& use) {
  for (std::byte* end = top; end != chunk->begin();) {
    const std::uintptr_t tag = detail::scratch_tag(end);
    end = detail::start_of(tag);
    if ((tag & detail::tag_of_hole) != 0) use(reinterpret_cast<detail::scratch_hole*>(end));
  }
}

}  // namespace

void set_thread_chunk_source(const chunk_source* source) noexcept {
  thread_source.store(source != nullptr ? source : &heap_source, std::memory_order_release);
}

scratch_totals all_scratch_arenas() noexcept {
  return {total_reserved.load(std::memory_order_relaxed), total_peak.load(std::memory_order_relaxed),
          total_growths.load(std::memory_order_relaxed)};
}

// Makes a chunk current that holds a block of this size. Returns false if there is none; nothing has changed then.
bool scratch_arena::grow(std::size_t size, std::size_t alignment, source_location where) noexcept {
  if (of_thread_ && owner_ == 0) {
    expects(this == &detail::thread_arena, "scratch: the arena of another thread is used", where);
    detail::thread_arena.adopt();
  }
  // The block's header lies within the `alignment` bytes that aligning its data may take.
  const bytes wanted = sizeof(scratch_chunk) + bytes{alignment} + detail::scratch_reach(size);
  if (!fits_size_t(wanted)) return false;
  const auto least = static_cast<std::size_t>(wanted);

  scratch_chunk* chunk = nullptr;
  if (spare_ != nullptr && spare_->size >= least) {
    chunk = std::exchange(spare_, nullptr);
  } else {
    // As much again as is in use, so that the heap is called a logarithmic number of times; less if memory is short.
    const bytes ample = wanted + std::max<bytes>(least_chunk, in_use());
    if (fits_size_t(ample)) chunk = take_chunk(static_cast<std::size_t>(ample), where);
    if (chunk == nullptr) chunk = take_chunk(least, where);
    if (chunk == nullptr) return false;
    drop_spare();
    if (shrunk_) period_ = std::min(2 * period_, longest_period);
    shrunk_ = false;
    emit({.kind = memory_event_kind::scratch_overflow, .owner = this, .address = chunk, .size = chunk->size});
  }
  if (chunk_ != nullptr && top_ == chunk_->begin()) free_chunk(pop_chunk(where));  // empty, and too small
  push_chunk(chunk, where);
  watch_ = false;
  look_at_ = given() + period_;
  return true;
}

scratch_chunk* scratch_arena::take_chunk(std::size_t size, source_location where) noexcept {
  const chunk_source* source = source_ != nullptr ? source_ : thread_source.load(std::memory_order_acquire);
  void* memory = source->allocate(source->context, size);
  if (memory == nullptr) return nullptr;
  expects(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0, "scratch: the source gave a chunk not aligned to 64",
          where);
  auto* chunk = ::new (memory) scratch_chunk{};
  chunk->size = size;
  chunk->source = source;
  detail::poison(chunk->begin(), chunk->capacity());
  reserved_ += size;
  ++chunks_;
  ++growths_;
  count_taken(size);
  return chunk;
}

void scratch_arena::free_chunk(scratch_chunk* chunk) noexcept {
  const std::size_t size = chunk->size;
  detail::unpoison(chunk, size);
  reserved_ -= size;
  --chunks_;
  total_reserved.fetch_sub(size, std::memory_order_relaxed);
  chunk->source->free(chunk->source->context, chunk, size);
}

// Makes a chunk without blocks current. The free end of the one before becomes a hole.
void scratch_arena::push_chunk(scratch_chunk* chunk, source_location where) noexcept {
  if (chunk_ != nullptr) {
    if (top_ != chunk_->end()) add_hole(chunk_, top_, chunk_->end(), where);
    lower_ += chunk_->capacity();
  }
  chunk->below = chunk_;
  chunk_ = chunk;
  top_ = chunk->begin();
  limit_ = top_;
}

// Makes the chunk below current again and returns the one that was. It holds no block.
scratch_chunk* scratch_arena::pop_chunk(source_location where) noexcept {
  scratch_chunk* chunk = chunk_;
  chunk_ = chunk->below;
  top_ = nullptr;
  if (chunk_ != nullptr) {
    lower_ -= chunk_->capacity();
    top_ = chunk_->end();
    const std::uintptr_t tag = detail::scratch_tag(top_);
    if ((tag & detail::tag_of_hole) != 0) {
      top_ = reinterpret_cast<std::byte*>(tag - detail::tag_of_hole);
      remove_hole(reinterpret_cast<detail::scratch_hole*>(top_), where);
    }
    if (chunk_ == emptying_) stop_emptying(where);
  }
  limit_ = top_;
  return chunk;
}

// Takes a chunk below the current one out of the arena: it is one hole.
void scratch_arena::unlink_chunk(scratch_chunk* chunk, source_location where) noexcept {
  remove_hole(reinterpret_cast<detail::scratch_hole*>(chunk->begin()), where);
  scratch_chunk* above = chunk_;
  while (above->below != chunk) above = above->below;
  above->below = chunk->below;
  lower_ -= chunk->capacity();
  if (chunk == emptying_) {
    emptying_ = nullptr;
    free_chunk(chunk);
    shrunk_ = true;
    start_window();
  } else {
    keep_spare(chunk);
  }
  if (chunk_->below == nullptr && top_ == chunk_->begin()) settle(where);
}

// Keeps the larger of two spare chunks.
void scratch_arena::keep_spare(scratch_chunk* chunk) noexcept {
  if (spare_ != nullptr && spare_->size >= chunk->size) return free_chunk(chunk);
  drop_spare();
  spare_ = chunk;
  spare_old_ = false;
}

void scratch_arena::drop_spare() noexcept {
  if (spare_ != nullptr) free_chunk(std::exchange(spare_, nullptr));
}

// Frees the only chunk and takes one of this capacity, or none if there is none.
void scratch_arena::replace_chunk(std::size_t capacity, source_location where) noexcept {
  drop_spare();
  free_chunk(pop_chunk(where));
  if (scratch_chunk* chunk = take_chunk(sizeof(scratch_chunk) + capacity, where)) push_chunk(chunk, where);
}

// Makes one chunk of several that holds the footprint; the arena has fallen empty. At the thread's end none remains.
void scratch_arena::settle(source_location where) noexcept {
  misses_ = 0;
  if (ending_) return trim(where);
  if (spare_ != nullptr && spare_->size > chunk_->size) {
    scratch_chunk* small = pop_chunk(where);
    push_chunk(std::exchange(spare_, nullptr), where);
    free_chunk(small);
  }
  drop_spare();
  if (chunk_->capacity() < need_) replace_chunk(need_ + detail::scratch_reach(need_ / 4), where);
}

// Ends the watch after some whole rounds of use.
void scratch_arena::chunk_fell_empty(source_location where) noexcept {
  if (chunk_->below == nullptr) settle(where);
  if (!watch_ || chunk_ == nullptr) return;
  if (falls_ == 0) {
    used_ = in_use();
    need_ = footprint();
  }
  if (falls_++ < whole_rounds) return;
  if (is_oversized()) shrink(where);
  start_window();
}

// Returns whether the arena reserves more than four times what its use since the last look needs. One chunk must hold
// the footprint; several share what is in use.
bool scratch_arena::is_oversized() const noexcept {
  const bool alone = chunk_ == nullptr || chunk_->below == nullptr;
  return reserved_ / 4 > std::max(alone ? need_ : used_, least_chunk);
}

void scratch_arena::start_window() noexcept {
  watch_ = false;
  used_ = in_use();
  need_ = footprint();
  look_at_ = given() + period_;
}

// Frees a spare chunk that was not used since the last look. Starts a watch if too much is reserved, and ends one that
// has lasted since the last look.
void scratch_arena::look(source_location where) noexcept {
  if (spare_ != nullptr && spare_old_) {
    drop_spare();
    shrunk_ = true;
  }
  spare_old_ = true;
  if (!watch_ && is_oversized()) {
    watch_ = true;
    falls_ = 0;
    look_at_ = given() + period_;
    return;
  }
  if (watch_ && is_oversized()) shrink(where);
  start_window();
}

// Frees the largest chunk: at once if it holds no block, else when its last block is released.
void scratch_arena::shrink(source_location where) noexcept {
  scratch_chunk* largest = chunk_;
  for (scratch_chunk* chunk = chunk_; chunk != nullptr; chunk = chunk->below)
    if (chunk->size > largest->size) largest = chunk;
  if (largest == nullptr) return;
  if (largest != chunk_ || top_ != chunk_->begin()) return start_emptying(largest, where);
  shrunk_ = true;
  if (chunk_->below != nullptr) return free_chunk(pop_chunk(where));
  replace_chunk(need_ + std::max(least_chunk, need_), where);
}

// Keeps requests from a chunk, so that it falls empty. The current one makes room for a chunk that fits the recent use.
// A chunk that has been emptying since the last time is held by a block that lives for long: the arena tries it less.
void scratch_arena::start_emptying(scratch_chunk* chunk, source_location where) noexcept {
  if (emptying_ != nullptr) {
    period_ = std::min(2 * period_, longest_period);
    return;
  }
  if (chunk == chunk_) {
    const std::size_t fits = used_ + std::max(least_chunk, used_);
    scratch_chunk* next = take_chunk(sizeof(scratch_chunk) + fits, where);
    if (next == nullptr) return;
    push_chunk(next, where);
  }
  for_each_hole(chunk, chunk->end(), [&](detail::scratch_hole* hole) { holes_.erase(hole, where); });
  emptying_ = chunk;
}

// Offers the holes of the chunk to requests again.
void scratch_arena::stop_emptying(source_location where) noexcept {
  scratch_chunk* const chunk = std::exchange(emptying_, nullptr);
  for_each_hole(chunk, chunk == chunk_ ? top_ : chunk->end(),
                [&](detail::scratch_hole* hole) { holes_.insert(hole, where); });
  period_ = std::min(2 * period_, longest_period);
}

void scratch_arena::trim(source_location where) noexcept {
  check_thread(where);
  drop_spare();
  while (chunk_ != nullptr && top_ == chunk_->begin()) free_chunk(pop_chunk(where));
  peak_ = in_use();
  start_window();
  set_gates();
}

}  // namespace berth
