// Measures the cost of recording for an allocation and its free from the cache. Unrecorded and recorded batches
// alternate in one run. The recording is first as young as memory allows (fresh pages), then beyond its capacity
// (folding).
//
// Prints nanoseconds for a pair: the minimum of many batches, and the median in brackets. With several threads, each
// with a pool of its own, it is the time of one thread's processor.
#include "berth/trace/recorder.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "berth/pool/pool.hpp"

namespace {

using namespace berth::literals;
using berth::bytes;
using clock_type = std::chrono::steady_clock;

constexpr int pairs = 2000;

void keep(void* p) {
  asm volatile("" : : "r"(p) : "memory");
}

struct series {
  std::vector<double> ns;
  [[nodiscard]] double least() const { return *std::ranges::min_element(ns); }
  [[nodiscard]] double median() {
    std::ranges::nth_element(ns, ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2));
    return ns[ns.size() / 2];
  }
};

// `live` blocks stay alive meanwhile, each being the oldest when it is freed: 0 frees at once.
struct load {
  berth::pool pool{berth::device::host()};
  berth::stream queue{berth::device::host()};
  std::vector<void*> window;
  bytes size;
  std::size_t at = 0;

  load(bytes n, std::size_t live) : window(live + 1), size{n} {}
  ~load() {
    for (void* p : window) pool.free(p);
  }
  double batch() {
    const auto before = clock_type::now();
    for (int i = 0; i < pairs; ++i) {
      pool.free(window[at]);
      window[at] = *pool.allocate_raw(size, queue);
      keep(window[at]);
      at = at + 1 == window.size() ? 0 : at + 1;
    }
    return std::chrono::duration<double, std::nano>(clock_type::now() - before).count() / pairs;
  }
};

void compare(const char* what, bytes size, std::size_t live, bytes capacity, int warm, int batches) {
  load l{size, live};
  berth::trace::recorder r{capacity};
  series bare, recorded;
  for (int i = 0; i < 20; ++i) l.batch();
  r.start();
  for (int i = 0; i < warm; ++i) l.batch();
  r.stop();
  for (int i = 0; i < batches; ++i) {
    l.batch();
    bare.ns.push_back(l.batch());
    r.start();
    l.batch();
    recorded.ns.push_back(l.batch());
    r.stop();
  }
  std::printf("%-44s %6.1f (%5.1f) %6.1f (%5.1f)   %.2fx (%.2fx)\n", what, bare.least(), bare.median(),
              recorded.least(), recorded.median(), recorded.least() / bare.least(), recorded.median() / bare.median());
}

double processor_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// Records throughout; the capacity is reached after a few batches.
void with_threads(unsigned threads, bytes capacity, int batches) {
  berth::trace::recorder r{capacity};
  std::vector<series> of(threads);
  r.start();
  {
    std::vector<std::jthread> all;
    for (series& mine : of) {
      all.emplace_back([&mine, batches] {
        load l{4_KiB, 0};
        for (int i = 0; i < batches; ++i) {
          const double before = processor_ns();
          for (int k = 0; k < 10; ++k) l.batch();
          mine.ns.push_back((processor_ns() - before) / (10 * pairs));
        }
      });
    }
  }
  r.stop();
  series whole;
  for (series& s : of) whole.ns.insert(whole.ns.end(), s.ns.begin() + batches / 2, s.ns.end());
  char what[64];
  std::snprintf(what, sizeof what, "4 KiB, %u threads, capacity of %u MiB reached", threads,
                static_cast<unsigned>(capacity >> 20));
  std::printf("%-44s                %6.1f (%5.1f)\n", what, whole.least(), whole.median());
}

}  // namespace

int main() {
  std::jthread{[] {}}.join();
  std::printf("free + allocate, ns: least (median)           unrecorded       recorded\n");
  compare("4 KiB, freed at once", 4_KiB, 0, 64_MiB, 0, 200);
  compare("4 KiB, 1000 alive", 4_KiB, 1000, 64_MiB, 0, 200);
  compare("1 MiB, freed at once", 1_MiB, 0, 64_MiB, 0, 200);
  compare("4 KiB, freed at once, capacity reached", 4_KiB, 0, 1_MiB, 100, 200);
  compare("4 KiB, 1000 alive, capacity reached", 4_KiB, 1000, 1_MiB, 100, 200);
  compare("4 KiB, 10000 alive, capacity reached", 4_KiB, 10000, 4_MiB, 400, 200);
  for (const bytes capacity : {1_MiB, 64_MiB}) {
    for (const unsigned threads : {1u, 4u, 16u}) with_threads(threads, capacity, 200);
  }
}
