// A device that works in the child of a fork. No thread is inside while the process is copied, so the child finds
// consistent records and free locks.
#pragma once

#include <mutex>

#include "device/backend.hpp"

namespace berth::detail {

class surviving_device : public device_backend {
 public:
  bool survives_fork() const noexcept final { return true; }

 protected:
  surviving_device() noexcept;
  ~surviving_device() override;

  std::mutex mutex_;  // the device's own; held across a fork behind the book's

 private:
  // Called in the child, before the first use of the device there.
  virtual void part_from_parent() noexcept {}

  static void before_fork() noexcept;
  static void after_fork(bool in_child) noexcept;
  static inline constinit std::mutex all_mutex_;  // guards the list of all
  static inline constinit surviving_device* first_ = nullptr;
  surviving_device* before_ = nullptr;
  surviving_device* next_ = nullptr;
};

}  // namespace berth::detail
