#include "device/host/progress.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace berth::detail {
namespace {

// Waiting costs no system call if the awaited count arrives within this time. Longer spins do not pay: on a busy
// machine they take the processor from the very thread that is awaited (docs/decisions/0040-host-streams.md has the
// figures).
constexpr std::chrono::microseconds spin_time{5};

void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

bool several_processors() noexcept {
  static const bool several = sysconf(_SC_NPROCESSORS_ONLN) > 1;
  return several;
}

}  // namespace

std::uint64_t awaited_count::hold() noexcept {
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  for (;;) {
    if ((state & held) != 0) state = wait_until([](std::uint64_t s) { return (s & held) == 0; });
    if (state_.compare_exchange_weak(state, state | held, std::memory_order_acquire, std::memory_order_relaxed)) {
      return state >> 1;
    }
  }
}

void awaited_count::set(std::uint64_t count) noexcept {
  // An exchange costs as much as a sequentially consistent store on x86. QEMU's user mode lets the load below pass a
  // mere store: emulated tests were seen to sleep for ever.
  (void)state_.exchange(count << 1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock{mutex_};
  changed_.notify_all();
}

std::uint64_t awaited_count::wait_for(std::uint64_t target) noexcept {
  return wait_until([target](std::uint64_t state) { return state >> 1 >= target; }) >> 1;
}

// Returns the state that was reached.
template <class Reached>
std::uint64_t awaited_count::wait_until(Reached reached) noexcept {
  std::uint64_t now = state_.load(std::memory_order_acquire);
  if (reached(now)) return now;
  if (several_processors()) {
    const auto start = std::chrono::steady_clock::now();
    // Checks less and less often: every check takes the count's cache line away from the thread that sets it.
    int pauses = 1;
    do {
      for (int i = 0; i < pauses; ++i) pause_briefly();
      now = state_.load(std::memory_order_acquire);
      if (reached(now)) return now;
      pauses = std::min(2 * pauses, 32);
    } while (std::chrono::steady_clock::now() - start < spin_time);
  }
  std::unique_lock lock{mutex_};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (!reached(now = state_.load(std::memory_order_seq_cst))) changed_.wait(lock);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return now;
}

}  // namespace berth::detail
