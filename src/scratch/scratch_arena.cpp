#include "berth/scratch/scratch_arena.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "berth/core/hook.hpp"

namespace berth {

namespace detail {

// The header of a chunk; blocks start right behind it.
struct alignas(64) scratch_chunk {
  std::size_t size;  // of the whole chunk
  const chunk_source* source;
  scratch_chunk* below;  // the chunk that was current before, and how it stood then
  std::byte* top;
  std::byte* limit;

  std::byte* begin() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  std::byte* end() noexcept { return reinterpret_cast<std::byte*>(this) + size; }
};
static_assert(sizeof(scratch_chunk) == 64);

thread_local constinit thread_scratch_arena thread_arena;

}  // namespace detail

namespace {

using detail::scratch_chunk;

// The least chunk. 64 KiB hold the packing buffers of most kernels; untouched pages of it cost nothing.
constexpr std::size_t min_chunk = std::size_t{64} << 10;

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

// Frees the thread's chunks when the thread ends. Apart from the arena, which so stays trivially destructible:
// scratches in destructors of other thread_local objects may run after it.
#if defined(__GLIBC__)
// What a thread_local object's destructor comes down to, without the C++ runtime in between.
extern "C" int __cxa_thread_atexit_impl(void (*function)(void*), void* object, void* library) noexcept;
extern "C" void* __dso_handle;

// A thread whose first use of scratch is a destructor of its keys is beyond those of its thread_local objects: it has
// another round of keys for us. glibc keeps 32 bytes of the registration that came too late; where the program has used
// up all keys, the chunk stays.
constinit pthread_once_t key_once = PTHREAD_ONCE_INIT;
constinit pthread_key_t key{};
constinit std::atomic<bool> has_key{false};

void make_key() noexcept {
  has_key = pthread_key_create(&key, [](void*) { detail::thread_arena.end(); }) == 0;
}

// Where the library is unloaded. No object with a destructor: threads may still run when the program ends.
[[gnu::destructor]] void give_key_back() noexcept {
  if (has_key.exchange(false)) pthread_key_delete(key);
}

void at_thread_end() noexcept {
  pthread_once(&key_once, make_key);
  if (has_key) pthread_setspecific(key, &detail::thread_arena);
  __cxa_thread_atexit_impl([](void*) { detail::thread_arena.end(); }, nullptr, &__dso_handle);
}
#else
struct thread_end {
  ~thread_end() { detail::thread_arena.end(); }
};

void at_thread_end() noexcept {
  thread_local const thread_end at_exit;
  static_cast<void>(at_exit);
}
#endif

}  // namespace

void set_thread_chunk_source(const chunk_source* source) noexcept {
  thread_source.store(source != nullptr ? source : &heap_source, std::memory_order_release);
}

scratch_totals all_scratch_arenas() noexcept {
  return {total_reserved.load(std::memory_order_relaxed), total_peak.load(std::memory_order_relaxed),
          total_growths.load(std::memory_order_relaxed)};
}

explicit_scratch_arena::~explicit_scratch_arena() {
  expects(statistics().in_use == 0, "scratch: an arena is destroyed while a block of it lives", made_);
  trim(made_);
}

namespace detail {

void thread_scratch_arena::adopt() noexcept {
  at_thread_end();
  owner_ = thread_token();
}

// Blocks may still live: scratches in thread_local objects that end later, or in frames that exit() leaves behind.
// Their chunks stay; the last release frees them.
void thread_scratch_arena::end() noexcept {
  if (ending_) return;
  ending_ = true;
  ++untidy_;
  trim(source_location::current());
}

}  // namespace detail

void* scratch_arena::allocate_slow(std::size_t size, std::size_t alignment, source_location where) noexcept {
  expects(is_power_of_two(alignment) && alignment >= 64 && alignment <= max_alignment,
          "scratch: an alignment is a power of two from 64 to 1 GiB", where);
  check_thread(where);
  for (bool grown = false;; grown = true) {
    // With the limit at the chunk's end the fast path decides; then the limit falls back to what has been used.
    if (chunk_ != nullptr) {
      std::byte* const used = limit_;
      limit_ = chunk_->end();
      void* data = allocate_fast(size, alignment);
      limit_ = std::max(used, top_);
      if (data != nullptr) {
        peak_ = std::max(peak_, below_ + static_cast<std::size_t>(limit_ - chunk_->begin()));
        return data;
      }
    }
    if (grown || !grow(size, alignment, where)) return nullptr;
  }
}

// Makes a chunk current that holds a block of this size. False where there is none; nothing has changed then.
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
    chunk = spare_;
    spare_ = nullptr;
    --untidy_;
  } else {
    // As much again as there is, so that the heap is called a logarithmic number of times; less where memory is short.
    const bytes ample = wanted + std::max<bytes>(min_chunk, reserved_);
    if (fits_size_t(ample)) chunk = take_chunk(static_cast<std::size_t>(ample), where);
    if (chunk == nullptr) chunk = take_chunk(least, where);
    if (chunk == nullptr) return false;
    drop_spare();
    emit({.kind = memory_event_kind::scratch_overflow, .owner = this, .address = chunk, .size = chunk->size});
  }
  if (chunk_ != nullptr && top_ == chunk_->begin()) free_chunk(pop_chunk());  // empty, and too small
  push_chunk(chunk);
  return true;
}

scratch_chunk* scratch_arena::take_chunk(std::size_t size, source_location where) noexcept {
  const chunk_source* source = source_ != nullptr ? source_ : thread_source.load(std::memory_order_acquire);
  void* memory = source->allocate(source->context, size);
  if (memory == nullptr) return nullptr;
  expects(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0, "scratch: the source gave a chunk not aligned to 64",
          where);
  auto* chunk = ::new (memory) scratch_chunk{size, source, nullptr, nullptr, nullptr};
  detail::poison(chunk->begin(), size - sizeof(scratch_chunk));
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

void scratch_arena::drop_spare() noexcept {
  if (spare_ == nullptr) return;
  free_chunk(spare_);
  spare_ = nullptr;
  --untidy_;
}

void scratch_arena::push_chunk(scratch_chunk* chunk) noexcept {
  chunk->below = chunk_;
  chunk->top = top_;
  chunk->limit = limit_;
  if (chunk_ != nullptr) below_ += static_cast<std::size_t>(top_ - chunk_->begin());
  chunk_ = chunk;
  top_ = chunk->begin();
  limit_ = chunk->begin();
}

// Makes the chunk below current again and returns the one that was. It holds no block.
scratch_chunk* scratch_arena::pop_chunk() noexcept {
  scratch_chunk* chunk = chunk_;
  chunk_ = chunk->below;
  top_ = chunk->top;
  limit_ = chunk->limit;
  if (chunk_ != nullptr) below_ -= static_cast<std::size_t>(top_ - chunk_->begin());
  return chunk;
}

// Of two spare chunks the larger stays.
void scratch_arena::keep_spare(scratch_chunk* chunk) noexcept {
  if (spare_ != nullptr && spare_->size >= chunk->size) return free_chunk(chunk);
  drop_spare();
  spare_ = chunk;
  ++untidy_;
}

// The arena has fallen empty: one chunk stays, which holds the peak. At the thread's end none does.
void scratch_arena::settle(source_location where) noexcept {
  if (ending_) return trim(where);
  if (spare_ == nullptr) return;
  keep_spare(pop_chunk());
  if (spare_->size - sizeof(scratch_chunk) < peak_) {
    drop_spare();
    if (scratch_chunk* chunk = take_chunk(sizeof(scratch_chunk) + peak_, where)) push_chunk(chunk);
  } else {
    scratch_chunk* chunk = spare_;
    spare_ = nullptr;
    --untidy_;
    push_chunk(chunk);
  }
  if (chunk_ != nullptr) limit_ = chunk_->begin() + peak_;
}

// Whether these are the bounds of a block that nobody has given back. O(chunks).
bool scratch_arena::is_live(std::byte* data, std::byte* end) const noexcept {
  const std::byte* top = top_;
  for (scratch_chunk* chunk = chunk_; chunk != nullptr; top = chunk->top, chunk = chunk->below)
    if (data > chunk->begin() && data < top) return end <= top && (detail::scratch_tag(end) & 1) == 0;
  return false;
}

void scratch_arena::release_slow(std::byte* data, std::byte* end, source_location where) noexcept {
  expects(is_live(data, end), "scratch: a block is given back that does not live in this arena", where);
  detail::scratch_tag(end) |= 1;
  ++untidy_;
  detail::poison(data, static_cast<std::size_t>(end - data) - sizeof(std::uintptr_t));
  for (;;) {
    if (top_ == chunk_->begin()) {
      if (chunk_->below == nullptr) return settle(where);
      if ((detail::scratch_tag(chunk_->top) & 1) == 0) return;
      keep_spare(pop_chunk());
    }
    const std::uintptr_t tag = detail::scratch_tag(top_);
    if ((tag & 1) == 0) return;
    auto* const start = reinterpret_cast<std::byte*>(tag - 1);
    expects(start >= chunk_->begin() && start < top_, "scratch: a block's end was overwritten", where);
    --untidy_;
    detail::poison(start, static_cast<std::size_t>(top_ - start));
    top_ = start;
  }
}

scratch_statistics scratch_arena::statistics() const noexcept {
  const std::size_t here = chunk_ != nullptr ? static_cast<std::size_t>(top_ - chunk_->begin()) : 0;
  return {.in_use = below_ + here,
          .peak = peak_,
          .reserved = reserved_,
          .chunks = chunks_,
          .growths = growths_,
          .fallbacks = fallbacks_};
}

void scratch_arena::trim(source_location where) noexcept {
  check_thread(where);
  drop_spare();
  if (chunk_ != nullptr && top_ == chunk_->begin()) free_chunk(pop_chunk());
  peak_ = statistics().in_use;
  limit_ = top_;
  for (scratch_chunk* chunk = chunk_; chunk != nullptr; chunk = chunk->below) chunk->limit = chunk->top;
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
