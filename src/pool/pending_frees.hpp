// Freed blocks on their way to the store: a stack without a lock, and the part of it that is being sorted.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "pool/extent.hpp"

namespace berth::detail {

class pending_frees {
 public:
  static constexpr std::uint32_t most_sorted = 200;  // blocks in one step, of some 0.2 us each

  // Pushes a chain linked by next. The stack is emptied as a whole, so pushing needs no protection against reuse (ABA).
  void push(extent* chain) noexcept {
    if (chain == nullptr) return;
    std::uint32_t count = 1;
    extent* last = chain;
    for (; last->next != nullptr; last = last->next, ++count) last->set(extent_state::pending);
    last->set(extent_state::pending);
    count_.fetch_add(count, std::memory_order_relaxed);
    last->next = top_.load(std::memory_order_relaxed);
    while (!top_.compare_exchange_weak(last->next, chain, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  // Returns true if many frees came without a request in between, so that no request should find all of them unsorted.
  [[nodiscard]] bool are_many() const noexcept { return count() >= many; }

  // The functions below need the pool's lock.
  [[nodiscard]] bool any() const noexcept {
    return taken_ != nullptr || top_.load(std::memory_order_relaxed) != nullptr;
  }
  // Returns the number of steps that sort what is unsorted now. Later frees do not prolong a loop of so many.
  [[nodiscard]] std::uint32_t steps_left() const noexcept { return (count() + most_sorted - 1) / most_sorted + 1; }
  // Calls f with at most one step's blocks.
  template <class Function>
  void take_step(Function&& f) noexcept {
    if (taken_ == nullptr) taken_ = top_.exchange(nullptr, std::memory_order_acquire);
    std::uint32_t sorted = 0;
    for (; taken_ != nullptr && sorted < most_sorted; ++sorted) {
      extent* const e = std::exchange(taken_, taken_->next);
      expects(e->is(extent_state::pending), "pool: double free, by two threads at once");
      f(e);
    }
    count_.fetch_sub(sorted, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t many = 1000;
  std::atomic<extent*> top_{nullptr};
  std::atomic<std::uint32_t> count_{0};  // blocks there and in `taken_`
  extent* taken_ = nullptr;
};

}  // namespace berth::detail
