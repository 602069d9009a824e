#include "device/survivor.hpp"

#include <pthread.h>

namespace berth::detail {

surviving_device::surviving_device() noexcept {
  static const int around_forks =
      pthread_atfork([] { before_fork(); }, [] { after_fork(false); }, [] { after_fork(true); });
  (void)around_forks;
  const std::lock_guard lock{all_mutex_};
  next_ = first_;
  if (next_ != nullptr) next_->before_ = this;
  first_ = this;
}

surviving_device::~surviving_device() {
  const std::lock_guard lock{all_mutex_};
  (before_ != nullptr ? before_->next_ : first_) = next_;
  if (next_ != nullptr) next_->before_ = before_;
}

void surviving_device::before_fork() noexcept {
  all_mutex_.lock();
  for (surviving_device* one = first_; one != nullptr; one = one->next_) {
    one->book.lock();
    one->order.lock();
    one->mutex_.lock();
  }
}

void surviving_device::after_fork(bool in_child) noexcept {
  for (surviving_device* one = first_; one != nullptr; one = one->next_) {
    if (in_child) one->part_from_parent();
    one->mutex_.unlock();
    one->order.unlock();
    one->book.unlock();
  }
  all_mutex_.unlock();
}

}  // namespace berth::detail
