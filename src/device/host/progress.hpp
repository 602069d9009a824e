// How many operations of a host queue are done: written by its worker, waited for by anyone. It outlives the queue,
// because events point to it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace berth::detail {

// A count that grows and that threads wait for. Waiting spins for a moment, so that a chain of short operations
// runs without a trip through the kernel, then sleeps.
//
// A setter that sees no sleeper makes no system call. This is Dekker's handshake: the setter stores the count and
// then reads `sleepers_`, the sleeper writes `sleepers_` and then reads the count, all sequentially consistent; so
// one of them sees the other.
class awaited_count {
 public:
  [[nodiscard]] std::uint64_t get() const noexcept { return count_.load(std::memory_order_acquire); }
  void set(std::uint64_t count) noexcept;
  // Waits until the count is at least `target`; gives the count.
  std::uint64_t wait_for(std::uint64_t target) noexcept;

 private:
  std::atomic<std::uint64_t> count_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace berth::detail
