// scratch_arena: the memory behind scratches that do not fit their inline bytes.
//
// An arena is a stack of blocks in one chunk of memory. Taking a block moves a pointer up, giving back the topmost
// moves it down. A block that is not topmost is only marked dead and is reclaimed when all blocks above it are gone, so
// any order of release is right (coroutines and fibers need that). When the chunk is full a larger one is taken; when
// the arena falls empty, several chunks become one that holds the peak, so that a workload that repeats calls the heap
// no more.
//
//   chunk   [ header | block | block | block |      free      ]
//   block   [ header: size, guard | the caller's bytes | guard | pad | tag ]
//
// Every part starts at a multiple of 64. Invariants:
//   I1  the tag, the last word of a block, is where the block starts, plus 1 if the block is dead: the word below the
//       top of a chunk leads down from block to block.
//   I2  only the current chunk gives blocks; chunks below it hold at least one block.
//   I3  untidy_ = dead blocks + spare chunk + 1 if the thread is ending; while it is 0, giving back the topmost block
//       needs nothing but moving the pointer.
//   I4  limit_ is the highest end that a block of the current chunk has had, so that the peak costs nothing to know:
//       raising it is the slow path.
//
// What a use of the arena costs is stores. Hence the topmost block is known by its end instead of a pointer to it, the
// guard word before the bytes also names the owner, and the tag also tells the dead.
//
// Rejected: alloca and VLAs (nothing bounds them, and no failure can be reported), std::pmr::monotonic (no reuse before
// its end), a free list (64-byte rounding and stack order make it needless). Ancestors: temporary_allocator of
// foonathan/memory, the obstacks of libiberty; boundary tags are Knuth's (The Art of Computer Programming 1, 2.5).
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/core/source_location.hpp"
#include "berth/core/thread_directory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define BERTH_SCRATCH_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BERTH_SCRATCH_POISONS 1
#endif
#endif
#if defined(BERTH_SCRATCH_POISONS)
#include <sanitizer/asan_interface.h>
#endif

namespace berth {

// Where arenas take their chunks from. Both functions may run on any thread that uses an arena.
struct chunk_source {
  // A block of `size` bytes (a multiple of 64), aligned to 64; null where there is none.
  void* (*allocate)(void* context, std::size_t size) noexcept = nullptr;
  void (*free)(void* context, void* chunk, std::size_t size) noexcept = nullptr;
  void* context = nullptr;
};

// The source of every thread's arena from now on; null: aligned_alloc. Chunks that an arena holds already go back to
// where they came from. The caller keeps *source alive as long as any thread may hold a chunk of it. Thread-safe.
void set_thread_chunk_source(const chunk_source* source) noexcept;

// Sizes count the bytes of headers and guards too: they are memory that the arena really takes.
struct scratch_statistics {
  bytes in_use = 0;             // between the arena's bottom and its top now
  bytes peak = 0;               // the most that in_use has been since the last trim()
  bytes reserved = 0;           // in chunks, used or not
  std::uint32_t chunks = 0;     // held now
  std::uint64_t growths = 0;    // chunks taken from the source in all; it stands still after warm-up
  std::uint64_t fallbacks = 0;  // blocks given out: scratches that did not fit their inline bytes
};

// The chunks of all arenas of the process.
struct scratch_totals {
  bytes reserved = 0;
  bytes peak_reserved = 0;
  std::uint64_t growths = 0;
};
[[nodiscard]] scratch_totals all_scratch_arenas() noexcept;

namespace detail {

// Bytes that neither text, zeros, ones nor common floating-point values are made of.
inline constexpr std::uint64_t scratch_guard = 0xB3'9D'E5'C7'A9'D3'8B'F1;

// The same, where it is compared with what memory holds: a constant that a compiler knows to be the one it wrote is
// kept in a register across the caller's code, and saving that register is one store more.
[[nodiscard]] inline std::uint64_t scratch_guard_again() noexcept {
  std::uint64_t guard = scratch_guard;
  asm volatile("" : "+r"(guard));
  return guard;
}

struct scratch_chunk;  // scratch_arena.cpp

struct alignas(64) scratch_header {
  bytes size;  // as asked for
  std::byte pad[48];
  std::uint64_t guard;  // adjoins the caller's bytes; scratch_guard ^ the owner's thread_token, 0 for explicit arenas
};
static_assert(sizeof(scratch_header) == 64);

// From a block's data to its end: the bytes, the guard word, the tag, rounded up.
[[nodiscard]] constexpr std::size_t scratch_reach(std::size_t size) noexcept {
  return (size + sizeof scratch_guard + sizeof(std::uintptr_t) + 63) & ~std::size_t{63};
}

// The tag of the block that ends here.
[[nodiscard]] inline std::uintptr_t& scratch_tag(std::byte* end) noexcept {
  return reinterpret_cast<std::uintptr_t*>(end)[-1];
}

inline void poison([[maybe_unused]] const void* from, [[maybe_unused]] std::size_t size) noexcept {
#if defined(BERTH_SCRATCH_POISONS)
  __asan_poison_memory_region(from, size);
#endif
}

inline void unpoison([[maybe_unused]] const void* from, [[maybe_unused]] std::size_t size) noexcept {
#if defined(BERTH_SCRATCH_POISONS)
  __asan_unpoison_memory_region(from, size);
#endif
}

}  // namespace detail

// An arena, whoever owns it: a thread (this_thread_arena) or the program (explicit_scratch_arena). Not thread-safe,
// and not safe in signal handlers: it serves one thread at a time, and a thread's own arena serves that thread only
// (a contract, checked). Trivially destructible and constant-initialised, so that a thread_local one costs no guard.
class scratch_arena {
 public:
  scratch_arena(const scratch_arena&) = delete;
  scratch_arena& operator=(const scratch_arena&) = delete;

  // No block is larger: an object's size must fit std::ptrdiff_t.
  static constexpr std::size_t max_block = std::numeric_limits<std::ptrdiff_t>::max();
  static constexpr std::size_t max_alignment = std::size_t{1} << 30;
  static constexpr std::size_t any_alignment = 0;

  // A block of `size` bytes, aligned to `alignment` (a power of two from 64 to max_alignment), not zeroed; null where
  // memory or address space is exhausted: the arena is as before. `scratch` is the safe way to call this. Contract: on
  // the thread whose arena this is. Cost: about fifteen instructions; the heap is called only to grow. A broken
  // contract names `where`, here and below.
  [[nodiscard]] void* allocate(std::size_t size, std::size_t alignment = 64,
                               source_location where = source_location::current()) noexcept;

  // The same for size <= max_block, where neither the chunk nor its limit has to change; else null.
  [[nodiscard]] void* allocate_fast(std::size_t size, std::size_t alignment = 64) noexcept;

  // Gives a block back; in any order. Contract: a live block of this arena, taken with this alignment, on its thread,
  // with no byte written before its start or past its end (a single one is noticed). Who no longer knows the alignment
  // says any_alignment, which is a little slower.
  void release(void* block, std::size_t alignment = 64, source_location where = source_location::current()) noexcept;

  // Contract: the caller runs on the thread whose arena this is. One instruction and a branch.
  void check_thread(source_location where = source_location::current()) const noexcept;

  // O(1).
  [[nodiscard]] scratch_statistics statistics() const noexcept;

  // Gives unused memory back: all of it where no block lives, else the spare chunk. The next use must grow again. The
  // peak is counted anew.
  void trim(source_location where = source_location::current()) noexcept;

 protected:
  constexpr scratch_arena() noexcept = default;
  ~scratch_arena() = default;

  [[nodiscard]] void* allocate_slow(std::size_t size, std::size_t alignment, source_location where) noexcept;
  void release_slow(std::byte* data, std::byte* end, source_location where) noexcept;
  [[noreturn]] static void wrong_thread(source_location where) noexcept;
  [[noreturn]] static void broken_block(const detail::scratch_header* header, source_location where) noexcept;

  [[nodiscard]] void* place(std::byte* data, std::byte* end, std::size_t size) noexcept;
  [[nodiscard]] bool grow(std::size_t size, std::size_t alignment, source_location where) noexcept;
  [[nodiscard]] detail::scratch_chunk* take_chunk(std::size_t size, source_location where) noexcept;
  void free_chunk(detail::scratch_chunk* chunk) noexcept;
  void drop_spare() noexcept;
  void push_chunk(detail::scratch_chunk* chunk) noexcept;
  [[nodiscard]] detail::scratch_chunk* pop_chunk() noexcept;
  void keep_spare(detail::scratch_chunk* chunk) noexcept;
  void settle(source_location where) noexcept;
  [[nodiscard]] bool is_live(std::byte* data, std::byte* end) const noexcept;

  std::byte* top_ = nullptr;    // where the next block starts, aligned to 64
  std::byte* limit_ = nullptr;  // I4
  std::uintptr_t owner_ = 0;    // the thread's token; 0 for an explicit arena
  std::uint32_t untidy_ = 0;    // I3
  std::uint32_t chunks_ = 0;
  std::uint64_t fallbacks_ = 0;

  detail::scratch_chunk* chunk_ = nullptr;  // the current one
  detail::scratch_chunk* spare_ = nullptr;  // an empty one, kept for the next growth
  const chunk_source* source_ = nullptr;    // null: the threads' source
  std::size_t below_ = 0;                   // bytes in use in the chunks below the current one
  std::size_t peak_ = 0;
  std::size_t reserved_ = 0;
  std::uint64_t growths_ = 0;
  bool of_thread_ = false;
  bool ending_ = false;  // the thread is at its end: keep nothing once empty
};

// An arena of the program's own, for fibers and coroutines that move between threads, and for tests. One thread at a
// time may use it; the program sees to that.
class explicit_scratch_arena final : public scratch_arena {
 public:
  explicit explicit_scratch_arena(source_location where = source_location::current()) noexcept : made_{where} {}
  // Chunks come from `source`, which the caller keeps alive as long as the arena.
  explicit explicit_scratch_arena(const chunk_source& source,
                                  source_location where = source_location::current()) noexcept
      : made_{where} {
    source_ = &source;
  }
  // Contract: no block lives. A broken one names the place where the arena was made.
  ~explicit_scratch_arena();

 private:
  source_location made_;
};

namespace detail {

class thread_scratch_arena final : public scratch_arena {
 public:
  constexpr thread_scratch_arena() noexcept { of_thread_ = true; }
  void adopt() noexcept;  // by the current thread
  void end() noexcept;    // at the thread's exit
};

extern thread_local constinit thread_scratch_arena thread_arena;

}  // namespace detail

// The calling thread's arena. Its chunks go back when the thread ends. Do not keep the reference in code that may
// continue on another thread (a coroutine): it would be the wrong thread's.
[[nodiscard]] inline scratch_arena& this_thread_arena() noexcept {
  scratch_arena* arena = &detail::thread_arena;
  asm("" : "+r"(arena));  // clang 14 looks it up again in a shared library where it could keep it
  return *arena;
}

// Implementation of the paths that must be inline.

inline void* scratch_arena::place(std::byte* data, std::byte* end, std::size_t size) noexcept {
  std::byte* const start = top_;  // the compiler would read it again behind each store
  detail::unpoison(start, static_cast<std::size_t>(end - start));
  auto* header = reinterpret_cast<detail::scratch_header*>(data) - 1;
  header->size = size;
  header->guard = detail::scratch_guard ^ owner_;
  std::memcpy(data + size, &detail::scratch_guard, sizeof detail::scratch_guard);
  detail::scratch_tag(end) = reinterpret_cast<std::uintptr_t>(start);
  detail::poison(&header->guard, sizeof header->guard);
  detail::poison(data + size, static_cast<std::size_t>(end - data) - size - sizeof(std::uintptr_t));
  top_ = end;
  ++fallbacks_;
  return data;
}

inline void* scratch_arena::allocate_fast(std::size_t size, std::size_t alignment) noexcept {
  std::size_t to_data = sizeof(detail::scratch_header);
  if (alignment > 64) {
    const auto top = reinterpret_cast<std::uintptr_t>(top_);
    to_data = ((top + to_data + alignment - 1) & ~(alignment - 1)) - top;
  }
  const auto room = static_cast<std::size_t>(limit_ - top_);
  const std::size_t to_end = to_data + detail::scratch_reach(size);
  if (to_end > room) [[unlikely]]
    return nullptr;
  return place(top_ + to_data, top_ + to_end, size);
}

inline void* scratch_arena::allocate(std::size_t size, std::size_t alignment, source_location where) noexcept {
  if (size > max_block) [[unlikely]]
    return nullptr;
  void* data = allocate_fast(size, alignment);
  return data != nullptr ? data : allocate_slow(size, alignment, where);
}

inline void scratch_arena::release(void* block, std::size_t alignment, source_location where) noexcept {
  auto* data = static_cast<std::byte*>(block);
  auto* header = reinterpret_cast<detail::scratch_header*>(data) - 1;
  const auto size = static_cast<std::size_t>(header->size);
  detail::unpoison(&header->guard, sizeof header->guard);
  detail::unpoison(data + size, sizeof detail::scratch_guard);
  const std::uint64_t guard = detail::scratch_guard_again();
  const std::uint64_t owner = header->guard ^ guard;
  std::uint64_t behind;
  std::memcpy(&behind, data + size, sizeof behind);
  if (behind != guard || (owner != detail::thread_token() && owner != 0)) [[unlikely]]
    broken_block(header, where);
  std::byte* const end = data + detail::scratch_reach(size);
  if (end != top_ || untidy_ != 0) [[unlikely]]
    return release_slow(data, end, where);
  // The header's address is at hand sooner than the word in the tag.
  top_ =
      alignment == 64 ? reinterpret_cast<std::byte*>(header) : reinterpret_cast<std::byte*>(detail::scratch_tag(end));
  detail::poison(data, static_cast<std::size_t>(end - data));
}

inline void scratch_arena::check_thread(source_location where) const noexcept {
  if (owner_ != 0 && owner_ != detail::thread_token()) [[unlikely]]
    wrong_thread(where);
}

}  // namespace berth
#pragma GCC visibility pop
