// A stream of a fake driver: a worker thread that runs closures in order.
//
// With BERTH_FAKE_LATE set in the environment it runs them as late as it may: when a thread waits for them, or has
// asked without effect. A missing wait then leaves work undone that is done at once otherwise. Memory that is given
// back too early is found in use.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace berth::support {

// Memory that an operation reads or writes.
struct fake_range {
  std::uintptr_t start = 0;
  std::size_t size = 0;
};

struct fake_stream {
  struct operation {
    std::function<void()> run;
    std::vector<fake_range> uses;
  };

  static bool late() {
    static const bool wanted = std::getenv("BERTH_FAKE_LATE") != nullptr;
    return wanted;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<operation> work;  // the front one may be running
  std::uint64_t enqueued = 0, done = 0, asked = 0;
  bool stop = false;
  std::thread worker{[this] { run(); }};

  void run() {
    std::unique_lock lock{mutex};
    for (;;) {
      changed.wait(lock, [this] { return stop || (!work.empty() && (!late() || done < asked)); });
      if (work.empty()) return;
      const std::function<void()> next = std::move(work.front().run);
      lock.unlock();
      next();
      lock.lock();
      work.pop_front();
      ++done;
      changed.notify_all();
    }
  }
  std::uint64_t enqueue(std::function<void()> f, std::vector<fake_range> uses = {}) {
    const std::lock_guard lock{mutex};
    work.push_back({std::move(f), std::move(uses)});
    changed.notify_all();
    return ++enqueued;
  }
  void wait_for(std::uint64_t count) {
    std::unique_lock lock{mutex};
    ask(count);
    changed.wait(lock, [&] { return done >= count; });
  }
  bool reached(std::uint64_t count) {
    const std::lock_guard lock{mutex};
    const bool there = done >= count;
    if (!there) ask(done + 1);  // so that whoever asks again and again comes to the end
    return there;
  }
  std::uint64_t last() {
    const std::lock_guard lock{mutex};
    return enqueued;
  }
  bool idle() {
    const std::lock_guard lock{mutex};
    return done == enqueued;
  }
  // Returns whether an operation that is not done yet uses a byte of the range.
  bool uses(std::uintptr_t start, std::size_t size) {
    const std::lock_guard lock{mutex};
    for (const operation& one : work) {
      for (const fake_range& r : one.uses) {
        if (r.start < start + size && start < r.start + r.size) return true;
      }
    }
    return false;
  }
  ~fake_stream() {
    {
      const std::lock_guard lock{mutex};
      stop = true;
    }
    changed.notify_all();
    worker.join();
  }

 private:
  void ask(std::uint64_t count) {
    if (asked >= count) return;
    asked = count;
    changed.notify_all();
  }
};

}  // namespace berth::support
