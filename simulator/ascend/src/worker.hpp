// The operations of one stream and the thread that does them, in order, as early or as late as the schedule says.
//
//   eager    at once
//   random   each waits until some more calls of AscendCL were made (how many, a hash of seed, stream and position
//            says) or somebody waits for it
//   latest   each waits until somebody waits for it or has asked for it in vain
//
// A program may also wait for what a host function of its own does, which the simulator cannot see: so nothing waits
// longer than `patience`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "profile.hpp"

namespace ascend_simulator {

class worker {
 public:
  static constexpr std::chrono::milliseconds patience{100};

  // Positions go on from `first`: streams that come after one another may share a number.
  worker(const settings& how, std::uint32_t number, std::uint64_t first);
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker();  // does what is left

  // The position of the operation, from first + 1.
  std::uint64_t enqueue(std::function<void()> operation);
  [[nodiscard]] std::uint64_t last();
  // Waits for the operation of this position; false where the time is over first (negative: no limit).
  bool wait_for(std::uint64_t position, std::chrono::milliseconds limit = std::chrono::milliseconds{-1});
  // Whether it is done. Where not, the next one may go, so that whoever asks again and again comes to the end.
  [[nodiscard]] bool reached(std::uint64_t position);
  // What has not begun is dropped and counts as done.
  void abort();
  // A call of AscendCL was made somewhere.
  static void tick() noexcept;

 private:
  struct operation {
    std::function<void()> run;
    std::uint64_t not_before;  // a count of ticks
    std::chrono::steady_clock::time_point enqueued;
  };
  void run();
  [[nodiscard]] bool may_go() const;
  void ask(std::uint64_t position);

  const settings& how_;
  const std::uint32_t number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<operation> work_;  // the front one may be running
  std::uint64_t enqueued_, done_, asked_;
  bool running_ = false;  // the front one was taken out
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ascend_simulator
