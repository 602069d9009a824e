// A lock that one favoured thread takes without a locked instruction: a store, a compiler barrier and a load.
//
// Another thread takes a mutex, closes the favoured thread's door with the expensive half of an asymmetric fence and
// waits until it has left. This is biased locking (Kawachiya, Koseki, Onodera 2002); the fence is that of
// core/asymmetric_fence.hpp. The other thread is then favoured itself, unless favour has changed too often. In that
// case all threads take the mutex, until renew(). All take it always if the system has no such fence.
//
// A thread has a door of its own in each lock, which no other thread ever writes. So a thread that is stopped between
// reading the favour and setting its own mark does no harm.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "berth/core/thread_directory.hpp"

namespace berth::detail {

class biased_lock {
 public:
  struct door {
    std::uintptr_t owner = 0;  // a thread's token; set once, before the door is published
    std::atomic<bool> inside{false};
  };

  biased_lock() = default;
  biased_lock(const biased_lock&) = delete;
  biased_lock& operator=(const biased_lock&) = delete;

  // Returns null if that needs the slow path: call lock() then. Else leave() follows.
  [[nodiscard]] door* enter() noexcept {
    door* const d = open_.load(std::memory_order_acquire);
    if (d->owner != thread_token()) [[unlikely]]
      return nullptr;
    d->inside.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (open_.load(std::memory_order_acquire) == d) [[likely]]
      return d;
    leave(d);
    return nullptr;
  }
  static void leave(door* d) noexcept { d->inside.store(false, std::memory_order_release); }

  void lock() noexcept;
  void unlock() noexcept;
  // Lets favour change again. With the lock held.
  void renew() noexcept { changes_ = 0; }

  // Locks in either way.
  class holder {
   public:
    explicit holder(biased_lock& l) noexcept : lock_{l}, door_{l.enter()} {
      if (door_ == nullptr) lock_.lock();
    }
    holder(const holder&) = delete;
    holder& operator=(const holder&) = delete;
    ~holder() {
      if (door_ != nullptr) {
        leave(door_);
      } else {
        lock_.unlock();
      }
    }

   private:
    biased_lock& lock_;
    door* door_;
  };

 private:
  static constexpr unsigned most_changes = 16;
  [[nodiscard]] door* my_door() noexcept;

  door closed_;  // unowned
  std::atomic<door*> open_{&closed_};
  std::array<door, 4> doors_;  // more threads than that are never favoured
  unsigned changes_ = 0;
  std::mutex mutex_;
};

}  // namespace berth::detail
