// Measures a host stream: enqueuing a call, running a chain of calls, and passing an event between two streams. The
// baseline is a mutex, a condition variable and std::function, as a simple task queue has them.
#include "berth/device/stream.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;

// The baseline.
class task_queue {
 public:
  ~task_queue() {
    enqueue({});
    worker_.join();
  }
  void enqueue(std::function<void()> task) {
    const std::lock_guard lock{mutex_};
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  void synchronize() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return tasks_.empty() && idle_; });
  }

 private:
  void work() {
    std::unique_lock lock{mutex_};
    for (;;) {
      idle_ = tasks_.empty();
      if (idle_) changed_.notify_all();
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      idle_ = false;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      if (!task) return;
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool idle_ = true;
  std::thread worker_{[this] { work(); }};
};

void count_up(void* count) {
  ++*static_cast<std::uint64_t*>(count);
}

struct spread {
  double least = 0, median = 0;
};

// Measures nanoseconds per operation over many batches.
template <class Batch>
spread measure(int batches, int operations, Batch batch) {
  std::vector<double> ns;
  for (int i = 0; i < batches; ++i) {
    const double whole = batch();
    ns.push_back(whole / operations);
  }
  std::sort(ns.begin(), ns.end());
  return {ns.front(), ns[ns.size() / 2]};
}

template <class Work>
double nanoseconds(Work work) {
  const auto start = clock_type::now();
  work();
  return std::chrono::duration<double, std::nano>(clock_type::now() - start).count();
}

void print(const char* what, const spread& s) {
  std::printf("%-58s %9.1f %9.1f\n", what, s.least, s.median);
}

}  // namespace

int main() {
  constexpr int batches = 100;
  constexpr int operations = 1000;
  constexpr int many = 20'000;  // hides the wake-up of a worker at the start of a batch
  const berth::device host = berth::device::host();
  std::uint64_t count = 0;
  std::printf("%-58s %9s %9s\n", "ns per operation", "least", "median");
  {
    berth::stream s{host};
    print("stream: enqueue a call (the worker runs beside)", measure(batches, many, [&] {
            const double ns = nanoseconds([&] {
              for (int i = 0; i < many; ++i) (void)s.call(count_up, &count);
            });
            (void)s.synchronize();
            return ns;
          }));
    print("stream: enqueue and run a chain of calls", measure(batches, many, [&] {
            return nanoseconds([&] {
              for (int i = 0; i < many; ++i) (void)s.call(count_up, &count);
              (void)s.synchronize();
            });
          }));
    print("stream: call, then synchronize", measure(batches, operations, [&] {
            return nanoseconds([&] {
              for (int i = 0; i < operations; ++i) {
                (void)s.call(count_up, &count);
                (void)s.synchronize();
              }
            });
          }));
  }
  {
    task_queue q;
    print("task queue: enqueue a call", measure(batches, many, [&] {
            const double ns = nanoseconds([&] {
              for (int i = 0; i < many; ++i) q.enqueue([&count] { count_up(&count); });
            });
            q.synchronize();
            return ns;
          }));
    print("task queue: enqueue and run a chain of calls", measure(batches, many, [&] {
            return nanoseconds([&] {
              for (int i = 0; i < many; ++i) q.enqueue([&count] { count_up(&count); });
              q.synchronize();
            });
          }));
    print("task queue: call, then synchronize", measure(batches / 10, operations, [&] {
            return nanoseconds([&] {
              for (int i = 0; i < operations; ++i) {
                q.enqueue([&count] { count_up(&count); });
                q.synchronize();
              }
            });
          }));
  }
  {
    berth::stream a{host};
    berth::stream b{host};
    berth::event from_a{host};
    berth::event from_b{host};
    print("event ping-pong: there and back between two streams", measure(batches / 10, operations, [&] {
            return nanoseconds([&] {
              for (int i = 0; i < operations; ++i) {
                (void)a.call(count_up, &count);
                (void)a.record(from_a);
                (void)b.wait(from_a);
                (void)b.call(count_up, &count);
                (void)b.record(from_b);
                (void)a.wait(from_b);
              }
              (void)a.synchronize();
            });
          }));
  }
  return 0;
}
