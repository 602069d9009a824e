// scratch_arena: the memory behind scratches that do not fit their inline bytes.
//
// An arena is a stack of blocks in a chunk of memory. Taking a block moves a pointer up; releasing the topmost block
// moves it down. A block that is not topmost becomes a hole when it is released. Neighbouring holes are joined, and
// holes serve requests before the stack grows. So blocks may be released in any order, for any length of time:
// coroutines, fibers and alternating buffers need that. The arena takes a larger chunk when the current one is full. It
// frees chunks that hold no block.
//
//
//   Chunk: [ header, tag | block | hole | block |      free      ].
//   Block: [ pad | header: size, guard | the caller's bytes | guard | pad | tag ].
//   Hole:  [ header: size, links | unused bytes | tag ].
//
// Every part starts at a multiple of 64. Invariants (check_invariants() tests them):
//   I1  Blocks and holes tile each chunk: the current one up to top_, the others up to their ends.
//   I2  Two holes never adjoin, and no hole adjoins top_.
//   I3  A tag is the last word of a block or a hole. It holds where that starts, plus 1 for a hole, plus 2 if a hole
//       follows. The last word of a chunk's header is the tag of nothing: 0, or 2 if a hole follows.
//   I4  The tree holds exactly the holes, except those of a chunk that is being emptied.
//       The sum of the sizes of all holes is dead_; each chunk counts its own part.
//   I5  A chunk below the current one holds at least one block. Their capacities add up to lower_.
//   I6  countdown_ is below 0 only if releasing the topmost block needs nothing but moving the pointer.
//       The current chunk then has no hole, there is no spare chunk, no watch runs, and the thread is not at its end.
//       The number of blocks given out is base_ + countdown_.
//   I7  While top_ is at most limit_, the bytes in use are at most used_ and the footprint is at most need_.
//       So the fast path counts no peaks. After a slow operation, limit_ equals top_ in two cases:
//       the next request shall search the holes, or blocks are watched.
//
// Reuse. Holes are searched first if they are more than an eighth of the bytes in use. A request takes the smallest
// hole that holds it, the lowest of equal ones. A new chunk has room for the request and for as much again as is in
// use.
//
// Shrinking. The footprint is the memory up to the top: the chunks below, and the used part of the current one. Once in
// period_ blocks the arena examines its recent use. If that is below a quarter of what it reserves, it watches until
// the current chunk has become empty five times, or for another period. If the use has stayed below a quarter since,
// the largest chunk goes: at once if it is empty, else it is emptied first. A chunk that is being emptied serves no
// request and goes with its last block. An arena whose program needed the memory again examines itself half as often.
//
// A use of the arena costs mostly its stores. Hence the topmost block is known by its end instead of a pointer to it.
// The guard word before the bytes also names the owner, and the tag also marks holes.
//
// Rejected:
// * Alloca and VLAs: unbounded, and a failure cannot be reported.
// * The buffer of std::pmr::monotonic: no reuse before its end.
// * Lists of holes by size class: a hole that fits may stay unseen, and the arena grows without bound.
//
// Ancestors: temporary_allocator of foonathan/memory, the obstacks of libiberty. Boundary tags and best fit are Knuth's
// (The Art of Computer Programming 1, 2.5); the treap is by Aragon and Seidel (Randomized search trees, 1989).
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
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

// The functions that arenas take their chunks from. Both may run on any thread that uses an arena.
struct chunk_source {
  // Returns a block of `size` bytes (a multiple of 64), aligned to 64; null if there is none.
  void* (*allocate)(void* context, std::size_t size) noexcept = nullptr;
  void (*free)(void* context, void* chunk, std::size_t size) noexcept = nullptr;
  void* context = nullptr;
};

// Sets the source of every thread's arena from now on; null stands for aligned_alloc. Chunks that an arena holds
// already go back to their own source. The caller keeps *source alive as long as any thread may hold a chunk of it.
// Thread-safe.
void set_thread_chunk_source(const chunk_source* source) noexcept;

// Sizes count the bytes of headers, guards and padding too: they are memory that the arena really takes.
struct scratch_statistics {
  bytes in_use = 0;             // in blocks now
  bytes peak = 0;               // the most that in_use has been since the last trim()
  bytes reserved = 0;           // in chunks, used or not
  std::uint32_t chunks = 0;     // held now
  std::uint64_t growths = 0;    // chunks taken from the source in all
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

// Returns the guard, for comparing. The compiler must not recognize the constant it wrote. It would keep it in a
// register across the caller's code, and saving that register is one store more.
[[nodiscard]] inline std::uint64_t scratch_guard_again() noexcept {
  std::uint64_t guard = scratch_guard;
  asm volatile("" : "+r"(guard));
  return guard;
}

// Returns true if the guard word behind a block's bytes is intact.
[[nodiscard]] inline bool is_guard(const std::byte* behind, std::uint64_t guard) noexcept {
#if defined(BERTH_SCRATCH_POISONS)
  __asan_unpoison_memory_region(behind, sizeof scratch_guard);
#endif
  std::uint64_t there;
  std::memcpy(&there, behind, sizeof there);
  return there == guard;
}

struct scratch_chunk;  // src/scratch/chunk.hpp
struct scratch_hole;   // src/scratch/hole.hpp

// The holes of an arena, ordered by size and then by address: a treap whose nodes lie in the holes. Each operation is
// O(log holes) on average, whatever the order of the calls is. A node that was overwritten is a contract violation.
class scratch_holes {
 public:
  void insert(scratch_hole* hole, source_location where) noexcept;
  void erase(scratch_hole* hole, source_location where) noexcept;
  // Returns the smallest hole of at least `size` bytes, the lowest of equal ones; null if there is none.
  [[nodiscard]] scratch_hole* at_least(std::size_t size, source_location where) const noexcept;
  [[nodiscard]] const scratch_hole* root() const noexcept { return root_; }

 private:
  scratch_hole* root_ = nullptr;
  std::uint64_t drawn_ = 0;  // the last priority
};

struct alignas(64) scratch_header {
  bytes size;  // the requested size
  std::byte pad[48];
  std::uint64_t guard;  // adjoins the caller's bytes; scratch_guard ^ the owner's thread_token, 0 for explicit arenas
};
static_assert(sizeof(scratch_header) == 64);

// Returns the distance from a block's data to its end: the bytes, the guard word and the tag, rounded up.
[[nodiscard]] constexpr std::size_t scratch_reach(std::size_t size) noexcept {
  return (size + sizeof scratch_guard + sizeof(std::uintptr_t) + 63) & ~std::size_t{63};
}

inline constexpr std::uintptr_t tag_of_hole = 1;
inline constexpr std::uintptr_t tag_hole_follows = 2;

// Returns the tag of the block or hole that ends here.
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

// An arena of a thread (this_thread_arena) or of the program (explicit_scratch_arena). It is neither thread-safe nor
// safe in signal handlers. It serves one thread at a time; a thread's own arena serves that thread only (a contract,
// checked). It is trivially destructible and constant-initialised, so that a thread_local one costs no guard.
class scratch_arena {
 public:
  scratch_arena(const scratch_arena&) = delete;
  scratch_arena& operator=(const scratch_arena&) = delete;

  // The largest block: an object's size must fit std::ptrdiff_t.
  static constexpr std::size_t max_block = std::numeric_limits<std::ptrdiff_t>::max();
  static constexpr std::size_t max_alignment = std::size_t{1} << 30;
  static constexpr std::size_t any_alignment = 0;

  // Returns a block of `size` bytes, aligned to `alignment` (a power of two from 64 to max_alignment), not zeroed.
  // Returns null if memory or address space is exhausted; the arena is then unchanged. `scratch` is the safe way to
  // call this. Contract: on the thread whose arena this is. Cost: about fifteen instructions in stack order; O(log
  // holes) while there are holes to reuse; the heap is called only to grow. A broken contract names `where`, here and
  // below.
  [[nodiscard]] void* allocate(std::size_t size, std::size_t alignment = 64,
                               source_location where = source_location::current()) noexcept;

  // Does the same if size <= max_block, no hole must be searched, and neither the chunk nor its limit must change. Else
  // returns null.
  [[nodiscard]] void* allocate_fast(std::size_t size, std::size_t alignment = 64) noexcept;

  // Releases a block, in any order. Contract: a live block of this arena, taken with this alignment, on its thread,
  // with intact bytes before its start and past its end. A single changed byte is detected. A caller that does not know
  // the alignment passes any_alignment, which is a little slower. Cost: about ten instructions in stack order, else
  // O(log holes + chunks).
  void release(void* block, std::size_t alignment = 64, source_location where = source_location::current()) noexcept;

  // Does the same as allocate(). The block is a leak if it is not released when its thread ends, and is reported if
  // blocks are watched (berth/scratch/scratch.hpp).
  [[nodiscard]] void* allocate_for_c(std::size_t size, std::size_t alignment, source_location where) noexcept;

  // Contract: the caller runs on the thread whose arena this is. Cost: one instruction and a branch.
  void check_thread(source_location where = source_location::current()) const noexcept;

  // Returns the current figures. O(1).
  [[nodiscard]] scratch_statistics statistics() const noexcept;

  // Frees unused memory: the spare chunk, and the current one if it holds no block. The next use must grow again.
  // Restarts the peak.
  void trim(source_location where = source_location::current()) noexcept;

  // Tests I1 to I7 and names a broken one in a contract violation. O(blocks + holes): for tests and debugging.
  void check_invariants(source_location where = source_location::current()) const noexcept;

 protected:
  constexpr scratch_arena() noexcept = default;
  ~scratch_arena() = default;

  // scratch_arena.cpp
  [[nodiscard]] void* allocate_slow(std::size_t size, std::size_t alignment, source_location where) noexcept;
  [[nodiscard]] void* allocate_watched(std::size_t size, std::size_t alignment, std::size_t zone,
                                       source_location where) noexcept;
  [[nodiscard]] void* allocate_unwatched(std::size_t size, std::size_t alignment, source_location where) noexcept;
  void release_slow(std::byte* data, std::byte* end, source_location where) noexcept;
  void release_other(std::byte* data, source_location where) noexcept;
  [[noreturn]] static void wrong_thread(source_location where) noexcept;
  [[noreturn]] static void broken_block(const detail::scratch_header* header, source_location where) noexcept;

  [[nodiscard]] void* place(std::byte* data, std::byte* end, std::size_t size) noexcept;
  void write_block(std::byte* start, std::byte* data, std::byte* end, std::size_t size) noexcept;
  [[nodiscard]] void* push_block(std::size_t size, std::size_t alignment) noexcept;
  [[nodiscard]] void* take_hole(std::size_t size, std::size_t alignment, source_location where) noexcept;
  [[nodiscard]] detail::scratch_chunk* chunk_of(std::byte* data, std::byte* end) const noexcept;
  void add_hole(detail::scratch_chunk* chunk, std::byte* from, std::byte* to, source_location where) noexcept;
  void remove_hole(detail::scratch_hole* hole, source_location where) noexcept;
  [[nodiscard]] bool prefers_holes() const noexcept;
  void set_gates() noexcept;

  [[nodiscard]] std::uint64_t given() const noexcept { return base_ + static_cast<std::uint64_t>(countdown_); }
  [[nodiscard]] std::size_t footprint() const noexcept;
  [[nodiscard]] std::size_t in_use() const noexcept { return footprint() - dead_; }

  // scratch_chunks.cpp
  [[nodiscard]] bool grow(std::size_t size, std::size_t alignment, source_location where) noexcept;
  [[nodiscard]] detail::scratch_chunk* take_chunk(std::size_t size, source_location where) noexcept;
  void free_chunk(detail::scratch_chunk* chunk) noexcept;
  void push_chunk(detail::scratch_chunk* chunk, source_location where) noexcept;
  [[nodiscard]] detail::scratch_chunk* pop_chunk(source_location where) noexcept;
  void unlink_chunk(detail::scratch_chunk* chunk, source_location where) noexcept;
  void replace_chunk(std::size_t capacity, source_location where) noexcept;
  void keep_spare(detail::scratch_chunk* chunk) noexcept;
  void drop_spare() noexcept;
  void settle(source_location where) noexcept;
  void chunk_fell_empty(source_location where) noexcept;
  void look(source_location where) noexcept;
  void start_window() noexcept;
  [[nodiscard]] bool is_oversized() const noexcept;
  void shrink(source_location where) noexcept;
  void start_emptying(detail::scratch_chunk* chunk, source_location where) noexcept;
  void stop_emptying(source_location where) noexcept;

  static constexpr std::uint32_t least_period = 4096;

  std::byte* top_ = nullptr;      // where the next block starts, aligned to 64
  std::byte* limit_ = nullptr;    // I7
  std::uintptr_t owner_ = 0;      // the thread's token; 0 for an explicit arena
  std::ptrdiff_t countdown_ = 0;  // I6
  std::uint64_t base_ = 0;        // I6

  detail::scratch_chunk* chunk_ = nullptr;     // the current one
  detail::scratch_chunk* spare_ = nullptr;     // an empty one, kept for the next growth
  detail::scratch_chunk* emptying_ = nullptr;  // one below the current that serves no request
  const chunk_source* source_ = nullptr;       // null: the threads' source
  detail::scratch_holes holes_;                // I4
  std::size_t dead_ = 0;                       // I4
  std::size_t lower_ = 0;                      // I5
  std::size_t peak_ = 0;                       // the most in use since the last trim()
  std::size_t used_ = 0;                       // the most in use since the last look
  std::size_t need_ = 0;                       // the largest footprint since the last look
  std::size_t reserved_ = 0;
  std::uint64_t growths_ = 0;
  std::uint64_t look_at_ = 0;            // the number of blocks given out at which the arena looks at its use
  std::uint32_t period_ = least_period;  // blocks from one look to the next
  std::uint32_t chunks_ = 0;
  std::uint32_t misses_ = 0;  // requests in succession that no hole served
  std::uint32_t falls_ = 0;   // times that the current chunk fell empty during the watch
  bool watch_ = false;        // the arena waits for the current chunk to fall empty
  bool shrunk_ = false;       // the arena has given memory back since it last grew
  bool spare_old_ = false;    // the spare chunk was there at the last look
  bool of_thread_ = false;
  bool ending_ = false;  // the thread is at its end: keep nothing once empty
  bool for_c_ = false;   // allocate_for_c() runs
};

// An arena that the program owns, for fibers and coroutines that move between threads, and for tests. The program
// ensures that one thread at a time uses it.
class explicit_scratch_arena final : public scratch_arena {
 public:
  explicit explicit_scratch_arena(source_location where = source_location::current()) noexcept : made_{where} {}
  // Takes chunks from `source`, which the caller keeps alive as long as the arena.
  explicit explicit_scratch_arena(const chunk_source& source,
                                  source_location where = source_location::current()) noexcept
      : made_{where} {
    source_ = &source;
  }
  // Contract: no block lives. A broken contract names the place where the arena was made.
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

// Returns the calling thread's arena. Its chunks are freed when the thread ends. Do not keep the reference in code that
// may continue on another thread (a coroutine): the arena would be the wrong thread's.
[[nodiscard]] inline scratch_arena& this_thread_arena() noexcept {
  scratch_arena* arena = &detail::thread_arena;
  asm("" : "+r"(arena));  // else clang 14 looks it up a second time in a shared library
  return *arena;
}

// Implementation of the paths that must be inline.

inline void scratch_arena::write_block(std::byte* start, std::byte* data, std::byte* end, std::size_t size) noexcept {
  detail::unpoison(start, static_cast<std::size_t>(end - start));
  auto* header = reinterpret_cast<detail::scratch_header*>(data) - 1;
  header->size = size;
  header->guard = detail::scratch_guard ^ owner_;
  std::memcpy(data + size, &detail::scratch_guard, sizeof detail::scratch_guard);
  detail::scratch_tag(end) = reinterpret_cast<std::uintptr_t>(start);
  detail::poison(&header->guard, sizeof header->guard);
  detail::poison(data + size, static_cast<std::size_t>(end - data) - size - sizeof(std::uintptr_t));
}

inline void* scratch_arena::place(std::byte* data, std::byte* end, std::size_t size) noexcept {
  write_block(top_, data, end, size);  // by value: the compiler would read top_ again behind each store
  top_ = end;
  ++countdown_;
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
  const std::uint64_t guard = detail::scratch_guard_again();
  const std::uint64_t owner = header->guard ^ guard;
  // Checks the owner before it uses the size: the header of a watched block holds a red zone instead of a size.
  if ((owner != detail::thread_token() && owner != 0) || !detail::is_guard(data + size, guard)) [[unlikely]]
    return release_other(data, where);
  std::byte* const end = data + detail::scratch_reach(size);
  if (end != top_ || countdown_ >= 0) [[unlikely]]
    return release_slow(data, end, where);
  // Uses the header's address if possible: it is available sooner than the word in the tag.
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
