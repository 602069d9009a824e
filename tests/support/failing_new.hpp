// operator new that fails on demand and counts what is alive, for the whole program: included by one source of it.
//
//   fail_new_after(3);          // the third request from now fails, and no other, or all after it too
//   ...
//   fail_new_after(0);          // none does; says whether one has
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace berth::support {

enum class new_fails { once, from_then_on };

inline std::atomic<long> news_left{0};  // below 0: one has failed
inline std::atomic<long> news_alive{0};
inline std::atomic<new_fails> how_news_fail{new_fails::once};

inline bool fail_new_after(long n, new_fails how = new_fails::once) {
  how_news_fail.store(how);
  return news_left.exchange(n) < 0;
}
inline bool is_to_fail() noexcept {
  const long left = news_left.load(std::memory_order_relaxed);
  if (left < 0) return how_news_fail.load(std::memory_order_relaxed) == new_fails::from_then_on;
  return left > 0 && news_left.fetch_sub(1) == 1 && (news_left.fetch_sub(1), true);
}

inline void* counted(void* block) noexcept {
  if (block != nullptr) news_alive.fetch_add(1, std::memory_order_relaxed);
  return block;
}
inline void* aligned(std::size_t size, std::align_val_t alignment) noexcept {
  const auto to = static_cast<std::size_t>(alignment);
  return is_to_fail() ? nullptr : counted(std::aligned_alloc(to, (size + to - 1) / to * to));
}

}  // namespace berth::support

// Not inlined: g++ 12 takes free() in an inlined delete for a mistake.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return berth::support::is_to_fail() ? nullptr : berth::support::counted(std::malloc(size == 0 ? 1 : size));
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const block = operator new(size, std::nothrow)) return block;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return berth::support::aligned(size, alignment);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  if (void* const block = berth::support::aligned(size, alignment)) return block;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  if (block != nullptr) berth::support::news_alive.fetch_sub(1, std::memory_order_relaxed);
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept {
  operator delete(block);
}
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept {
  operator delete(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  operator delete(block);
}
