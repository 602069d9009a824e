#include "pool/biased_lock.hpp"

#include <thread>

#include "core/asymmetric_fence.hpp"

namespace berth::detail {

void biased_lock::lock() noexcept {
  mutex_.lock();
  door* const d = open_.load(std::memory_order_relaxed);
  if (d == &closed_) return;
  open_.store(&closed_, std::memory_order_seq_cst);
  asymmetric_fence();
  while (d->inside.load(std::memory_order_seq_cst)) std::this_thread::yield();
  if (d->owner != thread_token()) ++changes_;
}

void biased_lock::unlock() noexcept {
  if (changes_ < most_changes && has_asymmetric_fence()) {
    if (door* const mine = my_door()) open_.store(mine, std::memory_order_release);
  }
  mutex_.unlock();
}

biased_lock::door* biased_lock::my_door() noexcept {
  const std::uintptr_t me = thread_token();
  for (door& d : doors_) {
    if (d.owner == 0) d.owner = me;
    if (d.owner == me) return &d;
  }
  return nullptr;
}

}  // namespace berth::detail
