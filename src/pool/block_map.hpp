// A map from a block's address to its extent. Read without a lock; changed under the pool's.
//
// Open addressing with linear probing and backward-shift deletion, at most half full. A reader may run beside a writer.
// It finds the right entry, because it compares the address in the record of a live block, which stays constant while
// the block lives. A reader can miss an entry that moves at that moment. So writers count their moves, and find() knows
// when to search again (a sequence lock). Outgrown tables are kept until the end, for readers inside them. Their sizes
// are geometric, so together they are no larger than the newest.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "pool/extent.hpp"

namespace berth::detail {

class block_map {
 public:
  // Returns the extent that starts at the address, or null. Takes no lock. find_at_home() checks one place only.
  [[nodiscard]] extent* find_at_home(const void* address) const noexcept {
    const table* t = table_.load(std::memory_order_acquire);
    extent* e = t->slots[t->home(address)].load(std::memory_order_acquire);
    return e != nullptr && e->at() == address ? e : nullptr;
  }
  [[nodiscard]] extent* find(const void* address) const noexcept {
    for (;;) {
      const std::uint32_t moves = moves_.load(std::memory_order_acquire);
      extent* const e = probe(address);
      if (e != nullptr || (moves % 2 == 0 && moves_.load(std::memory_order_relaxed) == moves)) return e;
    }
  }

  // Ensures that so many inserts cannot fail. Returns false without host memory.
  [[nodiscard]] bool prepare(std::size_t more = 1) noexcept { return count_ + more <= room_ || grow(more); }

  void insert(extent* e) noexcept {
    put(*table_.load(std::memory_order_relaxed), e);
    ++count_;
  }

  void erase(const extent* e) noexcept {
    table& t = *table_.load(std::memory_order_relaxed);
    const std::uint32_t moves = moves_.load(std::memory_order_relaxed);
    moves_.store(moves + 1, std::memory_order_relaxed);  // the stores below release: a reader that sees them sees this
    std::size_t hole = t.home(e->at());
    while (t.slots[hole].load(std::memory_order_relaxed) != e) hole = (hole + 1) & t.mask;
    for (std::size_t i = (hole + 1) & t.mask;; i = (i + 1) & t.mask) {
      extent* moved = t.slots[i].load(std::memory_order_relaxed);
      if (moved == nullptr) break;
      const std::size_t home = t.home(moved->at());
      if (((i - home) & t.mask) < ((i - hole) & t.mask)) continue;
      t.slots[hole].store(moved, std::memory_order_release);
      hole = i;
    }
    t.slots[hole].store(nullptr, std::memory_order_release);
    moves_.store(moves + 2, std::memory_order_release);
    --count_;
  }

  template <class Function>
  void for_each(Function&& f) const {
    const table* t = table_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i <= t->mask; ++i) {
      if (extent* e = t->slots[i].load(std::memory_order_relaxed)) f(*e);
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  struct table {
    table() noexcept : mask{0}, slots{&none} {}
    explicit table(std::size_t size)
        : mask{size - 1}, owned{std::make_unique<std::atomic<extent*>[]>(size)}, slots{owned.get()} {}
    // Fibonacci hashing (Knuth 6.4). Blocks start at multiples of 64 at least, and the upper half of the product
    // depends on all other bits of the address.
    [[nodiscard]] std::size_t home(const void* address) const noexcept {
      const std::uint64_t key = reinterpret_cast<std::uintptr_t>(address);
      return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & mask;
    }
    std::size_t mask;
    std::unique_ptr<std::atomic<extent*>[]> owned;
    std::atomic<extent*>* slots;
    std::atomic<extent*> none{nullptr};  // for a table without room
  };
  [[nodiscard, gnu::noinline]] bool grow(std::size_t more) noexcept {
    table* old = table_.load(std::memory_order_relaxed);
    const std::size_t wanted = std::bit_ceil((count_ + more) * 2);
    try {
      tables_.reserve(tables_.size() + 1);
      auto t = std::make_unique<table>(std::max<std::size_t>(1024, wanted));
      for (std::size_t i = 0; i <= old->mask; ++i) {
        if (extent* e = old->slots[i].load(std::memory_order_relaxed)) put(*t, e);
      }
      table_.store(t.get(), std::memory_order_release);
      tables_.push_back(std::move(t));
    } catch (const std::bad_alloc&) {
      return false;
    }
    room_ = tables_.back()->mask / 2;
    return true;
  }
  [[nodiscard]] extent* probe(const void* address) const noexcept {
    const table* t = table_.load(std::memory_order_acquire);
    for (std::size_t i = t->home(address);; i = (i + 1) & t->mask) {
      extent* e = t->slots[i].load(std::memory_order_acquire);
      if (e == nullptr || e->at() == address) return e;
    }
  }
  void put(table& t, extent* e) noexcept {
    std::size_t i = t.home(e->at());
    while (t.slots[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & t.mask;
    t.slots[i].store(e, std::memory_order_release);
  }

  table first_;
  std::atomic<table*> table_{&first_};
  std::atomic<std::uint32_t> moves_{0};  // odd while entries move
  alignas(64) std::size_t count_ = 0;    // separate from the data of readers
  std::size_t room_ = 0;                 // the entries at which the table is half full
  std::vector<std::unique_ptr<table>> tables_;
};

}  // namespace berth::detail
