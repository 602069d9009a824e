// What of a kind is this thread's, by the thread register. Not by a thread_local, whose look-up is a call in
// position-independent code, and saves and restores registers even where the linker makes it none.
#pragma once
#pragma GCC visibility push(default)

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace berth::detail {

// The value of the thread register: different for any two threads that live at once. One instruction, also in a shared
// library.
[[nodiscard]] inline std::uintptr_t thread_token() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

// Open addressing with linear probing. Each thread adds and removes its own entry, with a lock held that its owner
// chose, and looks for none but its own without. T has a member `std::atomic<std::uintptr_t> owner`, the thread's
// token; one that is made without arguments is nobody's, and is there before anything else of the program runs.
template <class T>
class thread_directory {
 public:
  thread_directory() noexcept {
    for (auto& e : entries_) e.store(&nobodys, std::memory_order_relaxed);
  }
  // This thread's, or (then its owner is another) nobody knows whose. find() looks further; null where the thread has
  // none.
  [[nodiscard]] T& at_home() const noexcept { return *entries_[home(thread_token())].load(std::memory_order_acquire); }
  [[nodiscard]] T* find() const noexcept {
    const std::uintptr_t me = thread_token();
    for (std::size_t i = 0; i < count; ++i) {
      T* const one = entries_[(home(me) + i) % count].load(std::memory_order_acquire);
      if (one->owner.load(std::memory_order_relaxed) == me) return one;
      if (one == &nobodys) break;
    }
    return nullptr;
  }
  // False where there is no room.
  [[nodiscard]] bool add(T* one) noexcept {
    const std::uintptr_t me = thread_token();
    for (std::size_t i = 0; i < count; ++i) {
      auto& e = entries_[(home(me) + i) % count];
      const T* const there = e.load(std::memory_order_relaxed);
      if (there != &nobodys && there != &gone) continue;
      one->owner.store(me, std::memory_order_relaxed);
      e.store(one, std::memory_order_release);
      return true;
    }
    return false;
  }
  void remove(T* one) noexcept {
    for (auto& e : entries_) {
      if (e.load(std::memory_order_relaxed) == one) e.store(&gone, std::memory_order_relaxed);
    }
    one->owner.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned bits = 12;  // threads beyond 4096 are not found in it
  static constexpr std::size_t count = std::size_t{1} << bits;
  // In entries never used, and in those of threads that ended: so that no entry is null.
  static inline constinit T nobodys{};
  static inline constinit T gone{};
  [[nodiscard]] static std::size_t home(std::uintptr_t token) noexcept {
    return (static_cast<std::uint32_t>(token) * 0x9E3779B1u) >> (32 - bits);  // a constant that fits an instruction
  }

  std::array<std::atomic<T*>, count> entries_{};
};

}  // namespace berth::detail
#pragma GCC visibility pop
