// scratch<T>: memory for the temporaries of one call.
//
//   berth::scratch<float> packed(n);
//   kernel(packed.data(), packed.size());  // On n floats, aligned to 64 bytes, not initialised.
//
// Up to InlineBytes lie in the object itself, on the caller's stack. More comes from this thread's arena
// (berth/scratch/scratch_arena.hpp) at about the same cost. The stack used is at most InlineBytes + Alignment for any
// n, so a scratch works on a 16 KiB thread. No lock is taken, and after warm-up the heap is not called.
//
// InlineBytes = 0 means arena only. The upper bound of 2048 keeps the object below a page: -fstack-clash-protection
// probes larger frames, and -ftrivial-auto-var-init fills them, used or not. `berth calibrate` measures the best value
// for a given compiler and flags.
//
// A scratch belongs to one thread and one scope: it is neither copied, moved nor created with new. Scratches of a
// thread may be destroyed in any order. Destroying one on another thread is a contract error. In a coroutine it is a
// local as any other. A coroutine that may continue on another thread must name an explicit arena.
//
// The destructor detects a byte written past the end, in release builds too. It also detects a byte written before the
// start of an arena block. Both are contract errors that name the scratch's place of creation and its size. With
// AddressSanitizer (in the program and in Berth) the write itself is reported.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <type_traits>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/scratch/scratch_arena.hpp"

namespace berth {

namespace detail {

// Throw std::length_error and std::bad_alloc. Without exceptions both are contract violations.
[[noreturn]] void scratch_too_long(source_location where);
[[noreturn]] void scratch_no_memory(source_location where);
[[noreturn]] void scratch_inline_overrun(std::size_t size, source_location where) noexcept;

}  // namespace detail

template <class T, std::size_t InlineBytes = 512, std::size_t Alignment = 64>
class scratch {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>, "scratch: T must be an object type that can be written");
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "scratch: T must be trivially copyable and trivially destructible");
  static_assert(InlineBytes <= 2048, "scratch: InlineBytes must be at most 2048");
  static_assert(is_power_of_two(Alignment) && Alignment >= 64,
                "scratch: Alignment must be a power of two, at least 64");
  static_assert(Alignment <= scratch_arena::max_alignment, "scratch: Alignment must be at most 1 GiB");
  static_assert(alignof(T) <= Alignment, "scratch: T needs a larger Alignment");

 public:
  // The most elements that any scratch can have: PTRDIFF_MAX bytes of them.
  static constexpr bytes max_size = scratch_arena::max_block / sizeof(T);

  // Makes n elements, uninitialised. n = 0 is an empty span whose data() is aligned and not null. The count is 64 bits
  // wide everywhere, so a product of dimensions is not truncated. Throws std::length_error if n > max_size, and
  // std::bad_alloc if there is no memory. The arena is then unchanged.
  explicit scratch(bytes n, source_location where = source_location::current()) : made_{where} {
    if (!take_inline(n)) take(n, this_thread_arena());
  }
  // Does the same from an explicit arena, which outlives the scratch. Contract: on the arena's thread.
  scratch(bytes n, scratch_arena& arena, source_location where = source_location::current()) : made_{where} {
    arena.check_thread(where);
    if (!take_inline(n)) take(n, arena);
  }
  // Do the same without exceptions: on failure the scratch is false, and data() null.
  scratch(bytes n, std::nothrow_t, source_location where = source_location::current()) noexcept : made_{where} {
    if (!take_inline(n) && !try_take(n, this_thread_arena())) fail();
  }
  scratch(bytes n, scratch_arena& arena, std::nothrow_t, source_location where = source_location::current()) noexcept
      : made_{where} {
    arena.check_thread(where);
    if (!take_inline(n) && !try_take(n, arena)) fail();
  }

  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  [[gnu::always_inline]] ~scratch() {  // forced: a call by clang 14 would cost as much as the rest
    if (fits_inline(size_))
      check_inline();
    else if (data_ != nullptr)
      arena_->release(data_, Alignment, made_);
  }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<T> span() noexcept { return {data_, size_}; }
  [[nodiscard]] T* begin() noexcept { return data_; }
  [[nodiscard]] T* end() noexcept { return data_ + size_; }
  // Not checked.
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  // Returns false only if a nothrow constructor failed.
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  // Returns true if the elements lie in the object itself.
  [[nodiscard]] bool is_inline() const noexcept { return static_cast<const void*>(data_) == storage_; }

 private:
  // Returns true if n elements lie in the object. The storage's address is tested because gcc 12 and clang 14 align a
  // coroutine's frame to 16 bytes only, whatever its locals ask for. On an ordinary stack gcc still knows the answer;
  // clang would believe the type.
  [[nodiscard]] bool fits_inline(bytes n) const noexcept {
    if constexpr (InlineBytes > 0) {
      auto address = reinterpret_cast<std::uintptr_t>(storage_);
#if defined(__clang__)
      asm volatile("" : "+r"(address));
#endif
      return n <= InlineBytes / sizeof(T) && address % Alignment == 0;
    }
    return false;
  }

  [[nodiscard]] bool take_inline(bytes n) noexcept {
    if (!fits_inline(n)) return false;
    data_ = reinterpret_cast<T*>(storage_);
    size_ = static_cast<std::size_t>(n);
    guard_inline();
    return true;
  }

  void check_inline() const noexcept {
    if constexpr (InlineBytes > 0) {
      detail::unpoison(storage_, sizeof storage_);
      std::uint64_t behind;
      std::memcpy(&behind, storage_ + size_ * sizeof(T), sizeof behind);
      if (behind != detail::scratch_guard_again()) [[unlikely]]
        detail::scratch_inline_overrun(size_ * sizeof(T), made_);
    }
  }

  [[nodiscard]] bool try_take(bytes n, scratch_arena& arena) noexcept {
    if (n > max_size) [[unlikely]]
      return false;
    const auto count = static_cast<std::size_t>(n);
    void* data = arena.allocate(count * sizeof(T), Alignment, made_);
    set(static_cast<T*>(data), count, &arena);
    return data != nullptr;
  }

  void take(bytes n, scratch_arena& arena) {
    const auto count = static_cast<std::size_t>(n);
    if (n <= max_size) [[likely]] {
      if (void* data = arena.allocate_fast(count * sizeof(T), Alignment)) [[likely]]
        return set(static_cast<T*>(data), count, &arena);
    }
    take_slow(n, arena);
  }

  // Separate from take(), so that a caller keeps no registers for it.
  [[gnu::noinline, gnu::cold]] void take_slow(bytes n, scratch_arena& arena) {
    if (n > max_size) detail::scratch_too_long(made_);
    if (!try_take(n, arena)) detail::scratch_no_memory(made_);
  }

  void fail() noexcept {
    set(nullptr, 0, nullptr);
    if (fits_inline(0)) guard_inline();
  }

  void set(T* data, std::size_t size, scratch_arena* arena) noexcept {
    data_ = data;
    size_ = size;
    arena_ = arena;
  }

  void guard_inline() noexcept {
    if constexpr (InlineBytes > 0) {
      std::memcpy(storage_ + size_ * sizeof(T), &detail::scratch_guard, sizeof detail::scratch_guard);
      detail::poison(storage_ + size_ * sizeof(T), sizeof storage_ - size_ * sizeof(T));
    }
  }

  // The inline bytes and room for the guard word behind them. First in the object, so the members below use the
  // padding.
  alignas(InlineBytes > 0 ? Alignment
                          : 1) std::byte storage_[InlineBytes > 0 ? InlineBytes + sizeof detail::scratch_guard : 1];
  T* data_;
  std::size_t size_;
  scratch_arena* arena_;  // the arena of elements that do not fit the object; else not written
  source_location made_;
};

static_assert(sizeof(scratch<float>) <= 512 + 64);
static_assert(sizeof(scratch<double, 2048, 128>) <= 2048 + 128);

// --- Red zones and leak reports for scratch blocks.
//
//   BERTH_DEBUG=scratch ./program        # Zones of 64 bytes before and behind each block.
//   BERTH_DEBUG=scratch=4KiB ./program   # Zones of 4 KiB.
//
// The words `guards`, `pages` and `leaks` of BERTH_DEBUG (berth/pool/debug.hpp) watch scratch blocks too, with zones of
// 64 bytes. The inline bytes of scratch<T> are not watched.
//
// Freeing a block checks each byte of its zones. A changed byte is a contract error, as without the watch. The line
// also gives the distance of the nearest changed byte and the place of the allocation.
//
// A leak is a block of the C functions or of STACK_ALLOC that its thread did not free. One line on standard error for
// each file and line reports them when the thread ends. For threads that still run it is printed when the program ends
// by exit() or by a return from main.
//
// Cost: a malloc and a lock for each block, and the writing and reading of its zones. Programs that do not watch pay
// nothing: the fast paths are the same instructions.

inline constexpr std::size_t least_scratch_zone = 64;
inline constexpr std::size_t most_scratch_zone = std::size_t{1} << 30;

// Sets the width of the zones, in bytes, for blocks of arenas that have not been used yet; 0 ends the watch. Widths are
// rounded up to a multiple of 64. BERTH_DEBUG is not read any more. An arena in use takes the new width when it next
// leaves its fast path. Contract: at most most_scratch_zone. Thread-safe.
void set_scratch_zone(std::size_t bytes);

// --- stack_left: how much of the stack is left, as a diagnostic. Berth itself does not depend on it.

// Returns the bytes between the caller's frame and the end of its thread's stack, guard page excluded. Returns nothing
// if that is unknown, and always nothing on systems other than Linux.
// * A worker thread: exact.
// * The main thread: up to RLIMIT_STACK as it stood at the thread's first call. The kernel must still find that memory,
//   and a mapping in the way may prevent it.
// * A fiber or an alternative signal stack is not the thread's stack: nothing, as the frame lies outside the known
//   bounds.
//
// Cost: a nanosecond, except for the first call of a thread, which asks the system: 0.2 us on a worker. On glibc's main
// thread it reads /proc/self/maps, which takes 15 us and more, and may call the heap.
[[nodiscard]] std::optional<std::size_t> stack_left() noexcept;

}  // namespace berth
#pragma GCC visibility pop
