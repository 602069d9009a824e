// Finds a thread's own entry by the thread register. A thread_local would cost a call in position-independent code. Its
// look-up saves and restores registers even if the linker removes the call.
#pragma once
#pragma GCC visibility push(default)

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace berth::detail {

// Returns the value of the thread register: different for any two threads that live at once. One instruction, also in a
// shared library.
[[nodiscard]] inline std::uintptr_t thread_token() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

// Open addressing with linear probing. Each thread adds and removes only its own entry, under a lock that the
// directory's owner chose. A thread looks up only its own entry, without the lock. T has a member
// `std::atomic<std::uintptr_t> owner`, the thread's token. A default-constructed T is unowned and is
// constant-initialized before any other code runs.
template <class T>
class thread_directory {
 public:
  thread_directory() noexcept {
    for (auto& e : entries_) e.store(&nobodys, std::memory_order_relaxed);
  }
  // Returns the entry in this thread's first slot. It is this thread's only if its owner is thread_token(). The
  // function find() probes further, and returns null if the thread has no entry.
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
  // Returns false if the directory is full.
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
  static constexpr unsigned bits = 12;  // the directory holds at most 4096 threads
  static constexpr std::size_t count = std::size_t{1} << bits;
  // Fill the entries never used and those of ended threads, so that no entry is null.
  static inline constinit T nobodys{};
  static inline constinit T gone{};
  [[nodiscard]] static std::size_t home(std::uintptr_t token) noexcept {
    return (static_cast<std::uint32_t>(token) * 0x9E3779B1u) >> (32 - bits);  // a constant that fits an instruction
  }

  std::array<std::atomic<T*>, count> entries_{};
};

}  // namespace berth::detail
#pragma GCC visibility pop
