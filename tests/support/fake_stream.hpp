// A stream of a fake driver: a worker thread that runs closures in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace berth::support {

struct fake_stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  std::uint64_t enqueued = 0, done = 0;
  bool stop = false;
  std::thread worker{[this] { run(); }};

  void run() {
    std::unique_lock lock{mutex};
    for (;;) {
      changed.wait(lock, [this] { return stop || !work.empty(); });
      if (work.empty()) return;
      auto next = std::move(work.front());
      work.pop_front();
      lock.unlock();
      next();
      lock.lock();
      ++done;
      changed.notify_all();
    }
  }
  std::uint64_t enqueue(std::function<void()> f) {
    const std::lock_guard lock{mutex};
    work.push_back(std::move(f));
    changed.notify_all();
    return ++enqueued;
  }
  void wait_for(std::uint64_t count) {
    std::unique_lock lock{mutex};
    changed.wait(lock, [&] { return done >= count; });
  }
  bool reached(std::uint64_t count) {
    const std::lock_guard lock{mutex};
    return done >= count;
  }
  std::uint64_t last() {
    const std::lock_guard lock{mutex};
    return enqueued;
  }
  ~fake_stream() {
    {
      const std::lock_guard lock{mutex};
      stop = true;
    }
    changed.notify_all();
    worker.join();
  }
};

}  // namespace berth::support
