// A thread's cache of one pool: blocks that were freed here, kept as they are for the next request of the same
// rounded size on the same stream. They need no further ordering: a stream's own work comes in order.
//
// The owner thread enters and leaves without an atomic read-modify-write; whoever else empties or reads the cache holds
// the pool's lock and seizes it. It is Dekker's algorithm with the expensive fence on the rare side: membarrier(2),
// which makes every running thread of the process pass a barrier. Where that is missing the owner pays for the fence.
//
// Sixty-four sets of four bins under a hash of (size, stream); where a set is full, its bins in turn make room.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "pool/extent.hpp"

namespace berth::detail {

// Counted without shared writes; summed by pool::statistics().
struct cache_counters {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t hits = 0;
  std::int64_t live = 0;       // bytes, as asked, not yet in the pool's sum
  std::int64_t live_peak = 0;  // the most of it since it was last published
};

class thread_cache {
 public:
  // The owner. False where somebody has seized the cache: wait for the pool's lock, which that one holds, and try
  // again.
  [[nodiscard]] bool enter() noexcept {
    if (cheap_fences) [[likely]] {
      inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      inside_.store(true, std::memory_order_seq_cst);
    }
    if (!seized_.load(std::memory_order_seq_cst)) [[likely]]
      return true;
    inside_.store(false, std::memory_order_release);
    return false;
  }
  void leave() noexcept { inside_.store(false, std::memory_order_release); }

  // Anybody, with the pool's lock held. seize_all() is the same for many, with one fence.
  void seize() noexcept;
  template <class Caches>
  static void seize_all(const Caches& caches) noexcept {
    for (const auto& c : caches) c->seized_.store(true, std::memory_order_seq_cst);
    fence();
    for (const auto& c : caches) c->wait_until_left();
  }
  void give_back() noexcept { seized_.store(false, std::memory_order_release); }

  // A block of that size and stream, or null.
  [[nodiscard]] extent* pop(bytes size, std::uint32_t stream) noexcept {
    set& s = sets_[set_of(size, stream)];
    for (bin& b : s) {
      if (b.size != size || b.stream != stream) continue;
      extent* e = b.head;
      if (e == nullptr) return nullptr;
      b.head = std::exchange(e->next, nullptr);
      --b.count;
      held_ -= size;
      --blocks_;
      return e;
    }
    return nullptr;
  }

  // Keeps the block. Contract: fits(e->size). Returns blocks that had to make room, linked by next.
  [[nodiscard]] extent* push(extent* e) noexcept {
    set& s = sets_[set_of(e->size, e->stream)];
    bin* place = nullptr;
    for (bin& b : s) {
      if (b.size == e->size && b.stream == e->stream) {
        put(b, e);
        return nullptr;
      }
      if (place == nullptr && b.head == nullptr) place = &b;
    }
    extent* evicted = nullptr;
    if (place == nullptr) {
      place = &s[turn_++ % ways];
      evicted = place->head;
      forget(*place);
    }
    place->size = e->size;
    place->stream = e->stream;
    put(*place, e);
    return evicted;
  }

  // Room is made by emptying one bin after the other; null where nothing is cached.
  [[nodiscard]] extent* evict_one_bin() noexcept {
    for (std::size_t i = 0; i < sets_.size() * ways; ++i) {
      bin& b = sets_[hand_ / ways][hand_ % ways];
      hand_ = (hand_ + 1) % (sets_.size() * ways);
      if (b.head == nullptr) continue;
      extent* all = b.head;
      forget(b);
      return all;
    }
    return nullptr;
  }

  [[nodiscard]] bytes held() const noexcept { return held_; }
  [[nodiscard]] std::uint32_t blocks() const noexcept { return blocks_; }

  cache_counters counters;
  std::int64_t publish_at = 0;  // bytes of |counters.live| from which they go into the pool's sum

 private:
  static constexpr unsigned ways = 4;
  struct bin {
    bytes size = 0;
    extent* head = nullptr;
    std::uint32_t stream = 0;
    std::uint32_t count = 0;
  };
  using set = std::array<bin, ways>;

  [[nodiscard]] static std::size_t set_of(bytes size, std::uint32_t stream) noexcept {
    return static_cast<std::size_t>(((size + stream) * 0x9E3779B97F4A7C15u) >> 58);
  }
  void put(bin& b, extent* e) noexcept {
    e->next = b.head;
    b.head = e;
    ++b.count;
    held_ += e->size;
    ++blocks_;
  }
  void forget(bin& b) noexcept {
    held_ -= b.size * b.count;
    blocks_ -= b.count;
    b.head = nullptr;
    b.count = 0;
  }

  static const bool cheap_fences;
  static void fence() noexcept;  // the expensive one
  void wait_until_left() const noexcept;

  std::atomic<bool> inside_{false};
  std::atomic<bool> seized_{false};
  std::uint32_t blocks_ = 0;
  bytes held_ = 0;
  std::size_t hand_ = 0;
  unsigned turn_ = 0;
  std::array<set, 64> sets_{};
};

}  // namespace berth::detail
