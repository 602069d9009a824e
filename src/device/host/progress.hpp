// The number of operations of a host queue that are enqueued, or done. The queue's threads wait for these counts. The
// count of done operations outlives the queue, because events point to it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace berth::detail {

// A growing count that threads wait for. Waiting spins for a moment, so that a chain of short operations runs without a
// trip through the kernel, then sleeps.
//
// A setter that sees no sleeper makes no system call. This is Dekker's handshake, sequentially consistent throughout.
// The setter stores the count and then reads `sleepers_`; the sleeper writes `sleepers_` and then reads the count. So
// one of them sees the other.
//
// Several threads may alternate as setters: hold() waits for its turn and set() ends it. One atomic exchange does both.
// So a queue whose producers need a lock pays for one operation more than a queue without.
class awaited_count {
 public:
  [[nodiscard]] std::uint64_t get() const noexcept { return state_.load(std::memory_order_acquire) >> 1; }
  // Returns the count as get() does, in order with the calls of hold() and set(). A thread that sets a larger count
  // later sees all effects before this call. A mere load is not ordered so against the setter's later loads, in the
  // memory model and on processors weaker than x86.
  [[nodiscard]] std::uint64_t get_in_order() noexcept { return state_.fetch_add(0, std::memory_order_acq_rel) >> 1; }
  // Returns the count. No other thread holds it before the following set().
  std::uint64_t hold() noexcept;
  void set(std::uint64_t count) noexcept;
  // Waits until the count is at least `target`; returns the count.
  std::uint64_t wait_for(std::uint64_t target) noexcept;

 private:
  static constexpr std::uint64_t held = 1;
  template <class Reached>
  std::uint64_t wait_until(Reached reached) noexcept;

  std::atomic<std::uint64_t> state_{0};  // twice the count, and one while it is held
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace berth::detail
