// The moment for which a request waits for streams' answers before it fails. An idle stream answers within
// microseconds, so the pauses between two checks begin small and double.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

namespace berth::detail {

class moment {
 public:
  explicit moment(std::chrono::milliseconds length) noexcept : end_{std::chrono::steady_clock::now() + length} {}
  // Returns true if it is over. A thread that was stopped meanwhile still checks a few times.
  [[nodiscard]] bool over() const noexcept { return looks_ >= least_looks && std::chrono::steady_clock::now() >= end_; }
  // Sleeps until the next check. Not with a lock held.
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
