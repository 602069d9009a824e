// The moment for which a request waits for streams' answers before it fails. A stream that has nothing left to do
// answers within microseconds, so the pauses between two looks begin small and double.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

namespace berth::detail {

class moment {
 public:
  explicit moment(std::chrono::milliseconds length) noexcept : end_{std::chrono::steady_clock::now() + length} {}
  // Returns whether it is over. A thread that was stopped meanwhile looks a few times all the same.
  [[nodiscard]] bool over() const noexcept { return looks_ >= least_looks && std::chrono::steady_clock::now() >= end_; }
  // Sleeps until the next look. Not with a lock held.
  void pause() {
    ++looks_;
    std::this_thread::sleep_for(std::exchange(pause_, 2 * pause_));
  }

 private:
  static constexpr unsigned least_looks = 3;
  std::chrono::steady_clock::time_point end_;
  std::chrono::microseconds pause_{20};
  unsigned looks_ = 1;
};

}  // namespace berth::detail
