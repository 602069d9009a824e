// The operations of one stream and the thread that does them, in order, as early or as late as the schedule says.
//
//   `eager`    At once.
//   `random`   Each operation waits until some more calls of AscendCL were made, or a thread waits for it.
//              A hash of seed, stream and position gives the number of calls.
//   `latest`   Each operation waits until a thread waits for it, or has queried it without success.
//
// A program may also wait for a result of its own host function, which the simulator cannot see. So no operation waits
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

  // Positions continue from `first`: successive streams may share a number.
  worker(const settings& how, std::uint32_t number, std::uint64_t first);
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker();  // does the remaining operations

  // Returns the position of the operation, from first + 1.
  std::uint64_t enqueue(std::function<void()> operation);
  [[nodiscard]] std::uint64_t last();
  // Waits for the operation of this position. Returns false if the time is over first (negative: no limit).
  bool wait_for(std::uint64_t position, std::chrono::milliseconds limit = std::chrono::milliseconds{-1});
  // Returns true if it is done. If not, the next one may start, so that repeated queries come to the end.
  [[nodiscard]] bool reached(std::uint64_t position);
  // Drops the operations that have not begun; they count as done.
  void abort();
  // Called at every call of AscendCL.
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
