// Holds a stream's work back until a test lets it go.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "berth/device/stream.hpp"

namespace berth::support {

// Work of a stream that is late: it waits until it is let go.
class gate {
 public:
  void hold(stream& s) {
    ASSERT_TRUE(s.call([](void* self) { static_cast<gate*>(self)->wait(); }, this));
  }
  void open() {
    const std::lock_guard held{lock_};
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock held{lock_};
    changed_.wait(held, [this] { return open_; });
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace berth::support
