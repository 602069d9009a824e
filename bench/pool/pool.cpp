// The cost of allocate + free, beside glibc's malloc and the standard's synchronised pool.
//
// Prints nanoseconds for a pair: the minimum of many batches, and the median in brackets. The process has created a
// thread, which disables single-threaded short cuts. Statistics are always on.
#include "berth/pool/pool.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory_resource>
#include <random>
#include <thread>
#include <vector>

#include "berth/trace/recorder.hpp"

namespace {

using namespace berth::literals;
using berth::bytes;

constexpr int batches = 200;
constexpr int pairs = 2000;

struct figure {
  double least = 0;
  double median = 0;
};

figure measure(const std::function<void(int pairs)>& work) {
  std::vector<double> ns;
  work(pairs);
  for (int i = 0; i < batches; ++i) {
    const auto before = std::chrono::steady_clock::now();
    work(pairs);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - before;
    ns.push_back(took.count() / pairs);
  }
  std::ranges::sort(ns);
  return {ns.front(), ns[ns.size() / 2]};
}

// Runs the same work on several threads at once; returns the mean of their figures.
figure measure_on(int threads, const std::function<std::function<void(int)>()>& make) {
  std::vector<figure> all(static_cast<std::size_t>(threads));
  std::barrier start{threads};
  std::vector<std::jthread> workers;
  for (figure& mine : all) {
    workers.emplace_back([&] {
      const auto work = make();
      start.arrive_and_wait();
      mine = measure(work);
    });
  }
  workers.clear();
  figure sum;
  for (const figure& f : all) {
    sum.least += f.least / threads;
    sum.median += f.median / threads;
  }
  return sum;
}

void keep(void* p) {
  asm volatile("" : : "r"(p) : "memory");
}

struct contestant {
  const char* name;
  std::function<std::function<void(int)>(bytes size)> make;
};

// Default options, one block at a time, three sizes in turn.
std::function<void(int)> three_sizes(berth::pool& p, const berth::device& d) {
  auto s = std::make_shared<berth::stream>(d);
  return [&p, s](int n) {
    const bytes sizes[] = {960_KiB, 1_MiB, 1088_KiB};
    for (int i = 0; i < n; ++i) {
      void* const block = *p.allocate_raw(sizes[i % 3], *s);
      keep(block);
      p.free(block);
    }
  };
}

// Requests of one stream beside a hundred thousand ranges that another stream's work holds back.
void print_pending() {
  const berth::device null = berth::device::open("null:4GiB").value();
  berth::stream holder{null};
  berth::stream asks{null};
  berth::pool p{null, {.cache_bytes = 0, .report_leaks = false}};
  std::vector<void*> all;
  for (int i = 0; i < 200'000; ++i) all.push_back(*p.allocate_raw(1_KiB, holder));
  for (std::size_t i = 0; i < all.size(); i += 2) p.free(all[i]);
  const figure f = measure([&](int n) {
    std::vector<void*> mine;
    for (int i = 0; i < n; ++i) mine.push_back(*p.allocate_raw(1_KiB, asks));
    for (void* block : mine) p.free(block);
  });
  std::printf("1 KiB beside 100,000 pending ranges, allocated and freed, no cache %8.1f (%4.1f)\n", f.least, f.median);
}

// Measures the time of all threads together, for one pair: the cost if every thread has its own cache.
void print_many_threads(int threads, const berth::device& host) {
  berth::pool p{host};
  berth::stream queue{host};
  std::barrier all{threads + 1};
  std::vector<std::jthread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      const auto play = [&](int n) {
        for (int i = 0; i < n; ++i) {
          void* const block = *p.allocate_raw(1_KiB, queue);
          keep(block);
          p.free(block);
        }
      };
      play(100);
      all.arrive_and_wait();
      play(100'000);
      all.arrive_and_wait();
    });
  }
  all.arrive_and_wait();
  const auto before = std::chrono::steady_clock::now();
  all.arrive_and_wait();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - before;
  std::printf("1 KiB on %d threads, wall time over all pairs %8.1f\n", threads, took.count() / (100'000.0 * threads));
}

}  // namespace

int main() {
  std::jthread{[] {}}.join();
  const berth::device host = berth::device::host();
  berth::pool pool{host};
  berth::pool central{host, {.cache_bytes = 0}};
  std::pmr::synchronized_pool_resource synchronized;

  const auto through = [&host](berth::pool& p, bool sized) {
    return [&p, &host, sized](bytes size) -> std::function<void(int)> {
      auto s = std::make_shared<berth::stream>(host);
      return [&p, s, size, sized](int n) {
        berth::pool& from = p;  // as a caller's loop keeps it in registers
        berth::stream& queue = *s;
        if (sized) {
          for (int i = 0; i < n; ++i) {
            void* const block = *from.allocate_raw(size, queue);
            keep(block);
            from.free(block, size, queue);
          }
        } else {
          for (int i = 0; i < n; ++i) {
            void* const block = *from.allocate_raw(size, queue);
            keep(block);
            from.free(block);
          }
        }
      };
    };
  };
  const contestant all[] = {{"berth, sized free", through(pool, true)},
                            {"berth, unsized free", through(pool, false)},
                            {"berth, owning block",
                             [&](bytes size) -> std::function<void(int)> {
                               auto s = std::make_shared<berth::stream>(host);
                               return [&pool, s, size](int n) {
                                 for (int i = 0; i < n; ++i) keep(pool.allocate(size, *s)->data());
                               };
                             }},
                            {"berth, no cache", through(central, true)},
                            {"glibc malloc",
                             [](bytes size) -> std::function<void(int)> {
                               return [size](int n) {
                                 for (int i = 0; i < n; ++i) {
                                   void* const block = std::malloc(size);
                                   keep(block);
                                   std::free(block);
                                 }
                               };
                             }},
                            {"pmr::synchronized_pool", [&](bytes size) -> std::function<void(int)> {
                               return [&synchronized, size](int n) {
                                 for (int i = 0; i < n; ++i) {
                                   void* const block = synchronized.allocate(size, 64);
                                   keep(block);
                                   synchronized.deallocate(block, size, 64);
                                 }
                               };
                             }}};

  for (const int threads : {1, 2}) {
    std::printf("allocate + free, ns, %d thread%s      256 B        4 KiB        1 MiB       16 MiB\n", threads,
                threads == 1 ? " " : "s");
    for (const contestant& c : all) {
      std::printf("%-32s", c.name);
      for (const bytes size : {256_B, 4_KiB, 1_MiB, 16_MiB}) {
        const figure f = measure_on(threads, [&] { return c.make(size); });
        std::printf("%6.1f (%4.1f)", f.least, f.median);
      }
      std::puts("");
    }
  }

  berth::trace::recorder recorder;
  recorder.start();
  std::printf("with a recorder listening          256 B        4 KiB        1 MiB       16 MiB\n");
  for (const int threads : {1, 2}) {
    std::printf("berth, sized free, %d thread%s      ", threads, threads == 1 ? " " : "s");
    for (const bytes size : {256_B, 4_KiB, 1_MiB, 16_MiB}) {
      const figure f = measure_on(threads, [&] { return all[0].make(size); });
      std::printf("%6.1f (%4.1f)", f.least, f.median);
    }
    std::puts("");
  }
  recorder.stop();

  for (const int threads : {1, 2}) {
    berth::pool fresh{host};
    const figure f = measure_on(threads, [&] { return three_sizes(fresh, host); });
    std::printf("three sizes round 1 MiB, %d thread%s %6.1f (%4.1f), flushes %llu\n", threads, threads == 1 ? " " : "s",
                f.least, f.median, static_cast<unsigned long long>(fresh.statistics().flushes));
  }
  print_pending();
  print_many_threads(300, host);

  const berth::pool_statistics s = pool.statistics();
  std::printf("pool hits %.4f %%, cache hits %.4f %%, events recorded %llu in %llu frees\n", 100 * s.pool_hit_rate(),
              100 * s.cache_hit_rate(), static_cast<unsigned long long>(s.events),
              static_cast<unsigned long long>(s.frees));
}
