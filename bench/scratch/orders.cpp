// Measures orders of release that never empty the arena: the reserved bytes beside the live ones, and the cost of a
// block. Usage: bench_scratch_orders [ROUNDS].
//
// Each order runs on a thread of its own for a tenth of the rounds and then for the rest. The table has the arena's
// reserved bytes at both moments, and the most bytes that the program has requested at one time. Times are of the
// thread's CPU, for one block from request to release.
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "berth/c/scratch.h"
#include "berth/scratch/scratch.hpp"

namespace {

using berth::scratch;

// The state of an order: one call of its round() releases at least one block and takes as many.
struct ping_pong {
  void* current = berth_scratch_allocate(4096, 1);
  static constexpr std::size_t live = 2 * 4096;
  static constexpr int blocks = 1;
  void round(std::mt19937&) {
    void* next = berth_scratch_allocate(4096, 1);
    std::memset(next, 1, 64);
    berth_scratch_free(current);
    current = next;
  }
  void end() { berth_scratch_free(current); }
};

struct optionals {
  std::optional<scratch<float>> a{std::in_place, 2000, berth::source_location::current()};
  std::optional<scratch<float>> b;
  static constexpr std::size_t live = 2 * 8000;
  static constexpr int blocks = 2;
  void round(std::mt19937&) {
    b.emplace(2000, berth::source_location::current());
    a.reset();
    a.emplace(2000, berth::source_location::current());
    b.reset();
  }
  void end() { a.reset(); }
};

// Two alternating buffers, and three temporaries of a kernel in stack order over them.
struct layers {
  void* current = berth_scratch_allocate(100'000, 1);
  static constexpr std::size_t live = 2 * 100'000 + 10'000 + 3'000 + 20'000;
  static constexpr int blocks = 4;
  void round(std::mt19937&) {
    void* next = berth_scratch_allocate(100'000, 1);
    {
      scratch<char> packed(10'000);
      scratch<char> sums(3'000);
      scratch<char> tile(20'000);
      packed[0] = sums[0] = tile[0] = 1;
    }
    berth_scratch_free(current);
    current = next;
  }
  void end() { berth_scratch_free(current); }
};

struct task {
  struct promise_type {
    task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

task takes_and_waits(std::size_t n, const bool* ends) {
  while (!*ends) {
    scratch<int> w(n);
    w[0] = 1;
    co_await std::suspend_always{};
  }
}

struct coroutines {
  bool ends = false;
  std::array<task, 4> tasks{takes_and_waits(700, &ends), takes_and_waits(1000, &ends), takes_and_waits(1300, &ends),
                            takes_and_waits(1600, &ends)};
  static constexpr std::size_t live = 4 * (700 + 1000 + 1300 + 1600);
  static constexpr int blocks = 4;
  void round(std::mt19937&) {
    for (const task& t : tasks) t.handle.resume();
  }
  void end() {
    ends = true;
    for (const task& t : tasks) {
      t.handle.resume();
      t.handle.destroy();
    }
  }
};

// Fibers of one thread: each takes a scratch, yields the thread, and continues later.
template <bool Random>
struct fibers {
  static constexpr std::size_t live = 8 * 4 * (2000 + 3 * 300 + 150);
  static constexpr int blocks = 8;
  struct fiber {
    ucontext_t context{};
    std::vector<char> stack = std::vector<char>(64 << 10);
  };
  std::array<fiber, 8> all;
  ucontext_t scheduler{};
  bool ends = false;

  fibers() {
    for (std::size_t i = 0; i < all.size(); ++i) {
      fiber& f = all[i];
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.data();
      f.context.uc_stack.ss_size = f.stack.size();
      f.context.uc_link = &scheduler;
      self() = this;
      makecontext(&f.context, reinterpret_cast<void (*)()>(body), 1, static_cast<int>(i));
    }
  }
  static fibers*& self() {
    static fibers* one = nullptr;
    return one;
  }
  static void body(int i) {
    fibers& me = *self();
    while (!me.ends) {
      scratch<int> a(static_cast<std::size_t>(2000 + i * 300));
      a[0] = 1;
      swapcontext(&me.all[static_cast<std::size_t>(i)].context, &me.scheduler);
    }
  }
  void resume(std::size_t i) { swapcontext(&scheduler, &all[i].context); }
  void round(std::mt19937& random) {
    for (std::size_t i = 0; i < 8; ++i) resume(Random ? random() % 8 : i);
  }
  void end() {
    ends = true;
    for (std::size_t i = 0; i < 8; ++i) resume(i);
  }
};

// Blocks of random sizes in so many places, one of which is released and taken anew at a time.
template <std::size_t Places, std::size_t Least, std::size_t Most>
struct places {
  std::vector<void*> block = std::vector<void*>(Places, nullptr);
  std::vector<std::size_t> size = std::vector<std::size_t>(Places, 0);
  std::size_t now = 0;
  std::size_t live = 0;
  static constexpr int blocks = 1;
  void round(std::mt19937& random) {
    const std::size_t i = random() % Places;
    if (block[i] != nullptr) berth_scratch_free(block[i]);
    now -= size[i];
    size[i] = Least + random() % (Most - Least + 1);
    block[i] = berth_scratch_allocate(size[i], 1);
    static_cast<char*>(block[i])[0] = static_cast<char>(i);
    now += size[i];
    live = std::max(live, now);
  }
  void end() {
    for (void* b : block) berth_scratch_free(b);
  }
};

// Thousands of holes that must not join: every second block of 2 x 5000 stays.
struct many_holes : places<100, 64, 1500> {
  std::vector<void*> held;
  many_holes() {
    std::mt19937 random{5};
    std::vector<void*> gone;
    for (int i = 0; i < 5000; ++i) {
      const std::size_t n = 100 + random() % 1900;
      gone.push_back(berth_scratch_allocate(n, 1));
      held.push_back(berth_scratch_allocate(1000, 1));
      live += n + 1000;
    }
    for (void* b : gone) berth_scratch_free(b);
    now = 5000 * 1000;
  }
  void end() {
    places::end();
    for (void* b : held) berth_scratch_free(b);
  }
};

// A permanent block of the program, and temporaries in stack order over it that fit no chunk with it.
struct pinned {
  void* held = berth_scratch_allocate(4000, 1);
  static constexpr std::size_t live = 4000 + 50'000 + 20'000;
  static constexpr int blocks = 2;
  void round(std::mt19937&) {
    scratch<char> a(50'000);
    scratch<char> b(20'000);
    a[0] = b[0] = 1;
  }
  void end() { berth_scratch_free(held); }
};

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Order>
void run(const char* name, std::size_t rounds) {
  std::thread{[=] {
    std::mt19937 random{1};
    Order order;
    const std::size_t first = rounds / 10;
    for (std::size_t i = 0; i < first; ++i) order.round(random);
    const std::uint64_t early = berth_scratch_statistics_of_thread().reserved;
    const double from = cpu_seconds();
    for (std::size_t i = first; i < rounds; ++i) order.round(random);
    const double seconds = cpu_seconds() - from;
    const berth_scratch_statistics s = berth_scratch_statistics_of_thread();
    std::printf("%-44s %9.1f %11.1f %11.1f %7.2f %7.1f\n", name, static_cast<double>(order.live) / 1024,
                static_cast<double>(early) / 1024, static_cast<double>(s.reserved) / 1024,
                static_cast<double>(s.reserved) / static_cast<double>(order.live),
                1e9 * seconds / static_cast<double>((rounds - first) * Order::blocks));
    order.end();
  }}.join();
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t rounds = count > 1 ? static_cast<std::size_t>(std::atoll(arguments[1])) : 1'000'000;
  std::printf("%-44s %9s %11s %11s %7s %7s\n", "order of release", "live KiB", "after 1/10", "reserved", "ratio", "ns");
  run<ping_pong>("ping-pong, 4 KiB", rounds);
  run<optionals>("two std::optional, 8 KB", rounds);
  run<layers>("ping-pong, 100 KB, and kernels over it", rounds);
  run<coroutines>("four coroutines in turn", rounds);
  run<fibers<false>>("eight fibers in turn", rounds);
  run<fibers<true>>("eight fibers, random", rounds);
  run<places<8, 64, 65536>>("8 places, random, 64 B to 64 KiB", rounds);
  run<places<64, 64, 65536>>("64 places, random, 64 B to 64 KiB", rounds);
  run<places<1000, 64, 65536>>("1000 places, random, 64 B to 64 KiB", rounds);
  run<places<1000, 64, 1024>>("1000 places, random, 64 B to 1 KiB", rounds);
  run<many_holes>("100 places among 5000 holes, 64 B to 1.5 KB", rounds);
  run<pinned>("stack order over a block that stays", rounds);
}
