// A thread's cache of one pool. It keeps blocks that were freed here for the next request of the same rounded size on
// the same stream. They need no further ordering: a stream's own work runs in order.
//
// The owner thread enters and leaves without an atomic read-modify-write. Any other thread that empties or reads the
// cache holds the pool's lock and seizes it. This is Dekker's algorithm with the expensive fence on the rare side.
// membarrier(2) makes every running thread of the process pass a barrier. The owner pays for the fence if that is
// missing.
//
// A bin for a (size, stream) lies at its hash's place or up to three places further. If all four are taken, they are
// replaced in turn. A size enters the cache as size_history.hpp decides.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <utility>

#include "berth/core/thread_directory.hpp"
#include "pool/extent.hpp"
#include "pool/size_history.hpp"

namespace berth::detail {

// Allocations that caches and the store served, and frees.
struct block_counts {
  std::uint64_t hits = 0, misses = 0, frees = 0;
};

// Counted without shared writes; summed by pool::statistics().
struct cache_counters {
  std::uint64_t misses = 0;    // allocations that the store served
  std::uint64_t passed = 0;    // freed blocks that the cache did not keep, or released later
  std::int64_t live = 0;       // requested bytes that are not yet in the pool's sum
  std::int64_t live_peak = 0;  // the most of it since it was last published
};

class thread_cache {
 public:
  // Keeps at most that many bytes and blocks, and no block of more than half the bytes. `number` is not 0, and unique
  // among the caches of the pool.
  thread_cache(bytes most_bytes, std::uint32_t most_blocks, std::uint16_t number) noexcept
      : gate_{idle_gate()}, all_room_{make_room(most_bytes, most_blocks)}, number_{number}, room_{all_room_} {}
  // An unowned cache for directories; constant-initialized before any other code runs.
  constexpr thread_cache() noexcept = default;

  // Called by the owner. Returns false if it needs the slow path: the cache is seized, or there is no cheap fence.
  [[nodiscard]] bool enter() noexcept {
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (gate_.load(std::memory_order_acquire) == gate::open) [[likely]]
      return true;
    leave();
    return false;
  }
  // Returns false only if the cache is seized.
  [[nodiscard]] bool enter_with_fence() noexcept;
  void leave() noexcept { inside_.store(false, std::memory_order_release); }

  // Seizes many caches with one fence, and waits until their owners are outside. The pool's lock is held.
  template <class Caches>
  static void seize_all(const Caches& caches) noexcept {
    for (const auto& c : caches) c->gate_.store(gate::seized, std::memory_order_seq_cst);
    fence();
    for (const auto& c : caches) c->wait_until_left();
  }
  void give_back() noexcept { gate_.store(idle_gate(), std::memory_order_release); }

  // The functions below are for the thread that is inside or has seized the cache.

  // The blocks of one size and stream. The one freed last stands apart, with its address, so a request for it waits for
  // no recent write.
  struct alignas(64) bin {
    bin_key key = 0;
    bytes size = 0;
    std::uint64_t charge = 0;  // of a block
    extent* top = nullptr;
    void* top_address = nullptr;
    extent* rest = nullptr;  // linked by next
    std::uint32_t stream = 0;
    std::uint32_t mark = 0;  // of a block in this bin
  };
  // Returns null if no such bin is found. find_at_home() checks one place only, where the bin is most of the time.
  [[nodiscard]] bin* find_at_home(bytes size, std::uint32_t stream) noexcept {
    bin& b = bins_[home(size, stream)];
    return b.size == size && b.stream == stream ? &b : nullptr;
  }
  [[nodiscard]] bin* find(bytes size, std::uint32_t stream) noexcept;
  // Returns the bin where the block was last, if it is still for such blocks; else null.
  [[nodiscard]] bin* find(const extent& e) noexcept {
    bin& b = bins_[bin_in(e.marked())];
    return b.key == e.key ? &b : nullptr;
  }
  // Returns the block freed last and its address; null if the bin is empty.
  [[nodiscard]] extent* pop(bin& b, void*& address) noexcept {
    extent* e = b.top;
    if (e != nullptr) [[likely]] {
      address = b.top_address;
      b.top = nullptr;
    } else {
      e = b.rest;
      if (e == nullptr) return nullptr;
      address = e->at();
      b.rest = e->next;
    }
    room_ += b.charge;
    return e;
  }
  // Returns true if a block taken out of a bin was put in there, and into no other since.
  [[nodiscard]] static bool belongs(const bin& b, const extent& e) noexcept { return e.marked() == b.mark; }
  // Returns false if the cache holds too much now: see evict_one_bin().
  [[nodiscard]] bool push(bin& b, extent* e, void* address) noexcept {
    if (b.top != nullptr) {
      b.top->next = b.rest;
      b.rest = b.top;
    }
    b.top = e;
    b.top_address = address;
    e->mark.store(b.mark, std::memory_order_relaxed);
    room_ -= b.charge;
    return !is_too_full();
  }
  [[nodiscard]] bool is_too_full() const noexcept { return (room_ & (no_bytes | some_blocks)) != some_blocks; }
  // Makes a bin for such blocks. Returns the evicted blocks in `gone`, linked by next. Returns null if the cache keeps
  // none of that size.
  [[nodiscard]] bin* make_bin(bytes size, std::uint32_t stream, extent*& gone) noexcept;
  // Returns true if a freed block of a size without a bin may get one.
  [[nodiscard]] bool admits(bytes size, std::uint32_t stream) noexcept { return history_.admits(size, stream); }
  // Evicts all blocks of one bin, one bin after the other, and removes the bin; null if the cache is empty.
  [[nodiscard]] extent* evict_one_bin() noexcept;
  // Evicts all blocks of that stream with at least `least` bytes, linked by next, and removes their bins.
  [[nodiscard]] extent* evict(std::uint32_t stream, bytes least) noexcept;
  // Blocks of other threads that this one freed go home in batches. The home's inbox takes a batch by one exchange. The
  // home thread sorts its inbox into its bins when it finds no block there. The functions take_outgoing() and
  // take_inbox() return the blocks waiting here, linked by next.
  //
  // Adds a block to the batch for its home. Returns blocks, linked by next, that the home cannot take any more.
  [[nodiscard]] extent* send_home(thread_cache& home, extent* e) noexcept;
  [[nodiscard]] extent* take_outgoing() noexcept;
  [[nodiscard]] bool has_mail() const noexcept { return inbox_.load(std::memory_order_relaxed) != nullptr; }
  [[nodiscard]] extent* take_inbox() noexcept { return inbox_.exchange(nullptr, std::memory_order_acquire); }
  // The thread ends, or a new one has the cache. A closed inbox takes no blocks.
  [[nodiscard]] extent* close_inbox() noexcept;
  void open_inbox() noexcept { inbox_.store(nullptr, std::memory_order_relaxed); }
  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }

  // Called when a request found no block. Returns true if a fitting one was evicted.
  [[nodiscard]] bool misses_evicted(bytes size, std::uint32_t stream) noexcept {
    return history_.misses_evicted(size, stream);
  }

  [[nodiscard]] bytes held() const noexcept { return (all_room_ - room_) >> block_bits << 6; }
  [[nodiscard]] std::uint64_t held_blocks() const noexcept { return (all_room_ - room_) & (some_blocks - 1); }
  // Frees are not counted but calculated from the blocks that left the cache in any way, and those in it.
  void add_to(block_counts& sum) const noexcept {
    const auto hits = static_cast<std::uint64_t>(granted_ - left_);
    sum.hits += hits;
    sum.misses += counters.misses;
    sum.frees += hits + counters.passed + held_blocks();
  }
  void forget_counts() noexcept {
    granted_ = left_;
    counters = {};
    counted_ = 0;
  }
  // Returns the allocations since the last call.
  [[nodiscard]] std::uint64_t new_allocations() noexcept {
    const std::uint64_t all = static_cast<std::uint64_t>(granted_ - left_) + counters.misses;
    return all - std::exchange(counted_, all);
  }

  // In a sampling pool, one request is due after so many unsampled ones of this thread. The owner may call this
  // outside.
  [[nodiscard]] bool is_due() const noexcept { return left_ <= 0; }
  void grant(std::int64_t requests) noexcept {
    granted_ += requests - left_;
    left_ = requests;
  }
  void count_hit() noexcept { --left_; }
  void count_miss() noexcept {
    ++counters.misses;
    --granted_;
    --left_;
  }
  // Returns the mark of a block that this cache gave out.
  [[nodiscard]] static std::uint32_t live_mark(const bin& b) noexcept {
    return b.mark ^ make_mark(extent_state::cached, 0, 0) ^ make_mark(extent_state::live, 0, 0);
  }

 private:
  // With the second value the owner pays for the fence, since the system has no membarrier(2).
  enum class gate : std::uint8_t { open, dear, seized };
  [[nodiscard]] static gate idle_gate() noexcept;
  static void fence() noexcept;  // the expensive one
  void wait_until_left() const noexcept;

  static constexpr unsigned bin_bits = 8;
  static constexpr std::size_t bin_count = std::size_t{1} << bin_bits;
  static constexpr std::size_t ways = 4;
  // Sizes are multiples of 64, and streams are few and numbered in turn.
  [[nodiscard]] static std::size_t home(bytes size, std::uint32_t stream) noexcept {
    return static_cast<std::size_t>(((size + stream) * 0x9E3779B97F4A7C15u) >> (64 - bin_bits));
  }
  // The room in one word: the bytes in units of 64 above the number of blocks, each with a bit that says it ran out.
  static constexpr unsigned block_bits = 20;
  static constexpr std::uint64_t some_blocks = std::uint64_t{1} << (block_bits - 1);  // cleared by one block too many
  static constexpr std::uint64_t no_bytes = std::uint64_t{1} << 63;
  [[nodiscard]] static constexpr std::uint64_t charge_of(bytes size) noexcept { return size >> 6 << block_bits | 1; }
  [[nodiscard]] static constexpr std::uint64_t make_room(bytes most_bytes, std::uint32_t most_blocks) noexcept {
    const bytes units = std::min(most_bytes >> 6, bytes{1} << 42);
    return units << block_bits | some_blocks | std::min<std::uint64_t>(most_blocks, some_blocks - 1);
  }
  // Returns all of the bin's blocks, linked by next.
  [[nodiscard]] extent* empty(bin& b) noexcept;
  struct batch {
    thread_cache* home = nullptr;
    extent* first = nullptr;
    extent* last = nullptr;
    bytes size = 0;
    unsigned count = 0;
  };
  static constexpr unsigned batch_blocks = 32;
  static constexpr bytes batch_bytes = bytes{64} << 10;
  [[nodiscard]] static extent* closed_inbox() noexcept;
  // Returns the blocks that the home does not take.
  [[nodiscard]] static extent* send(batch& b) noexcept;

  // Does the same for an eviction: removes the bin.
  [[nodiscard]] extent* evict_bin(std::size_t at) noexcept;

  std::atomic<gate> gate_{gate::seized};
  std::uint64_t all_room_ = 0;

 public:
  std::atomic<std::uintptr_t> owner{0};  // the thread's token; 0: unowned
  [[nodiscard]] bool mine() const noexcept { return owner.load(std::memory_order_relaxed) == thread_token(); }

 private:
  alignas(64) std::atomic<bool> inside_{false};

 public:
  // The pool wants to know when counters.live leaves (notice_below, notice_above).
  std::int64_t notice_above = 1;
  std::int64_t notice_below = std::numeric_limits<std::int64_t>::min();
  std::int64_t publish_at = std::numeric_limits<std::int64_t>::max();  // the |live| that is added to the pool's sum
  cache_counters counters;

 private:
  std::int64_t left_ = 0;     // requests before one is due
  std::int64_t granted_ = 0;  // its value without the requests that the cache served
  std::uint16_t number_ = 0;
  std::uint64_t room_ = 0;
  std::uint64_t counted_ = 0;  // see new_allocations()
  unsigned turn_ = 0;
  unsigned hand_ = 0;
  std::array<std::uint64_t, bin_count / 64> taken_{};  // a bit for each bin that has a key
  std::array<bin, bin_count> bins_{};
  size_history history_;
  std::array<batch, 4> outgoing_{};
  alignas(64) std::atomic<extent*> inbox_{nullptr};  // written by other threads
};

using cache_directory = thread_directory<thread_cache>;

}  // namespace berth::detail
