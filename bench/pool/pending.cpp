// Measures requests beside memory that other streams hold back. S streams freed K blocks each, in turn, so that no two
// neighbours are of one stream. Then 50 requests of 8 MiB follow on another stream; the pool grows for each.
//
//   usage: bench_pool_pending [streams] [blocks of each]
//
// Three scenes.
//
//   pending   the work of the S streams is not done, and the requesting stream is behind none of it
//   one each  ... it is behind the first block of each stream
//   done      the work is done, but the pool does not know yet
//
// The first request is the first to see the freed blocks. Times are those of the thread on the processor.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/pool/pool.hpp"
#include "thread_seconds.hpp"

namespace {

constexpr berth::bytes block = 4096;
constexpr int requests = 50;
constexpr int turns = 3;

void wait_for(void* gate) {
  static_cast<std::atomic<bool>*>(gate)->wait(false);
}

enum class scene { pending, one_each, done };

struct result {
  double first = 0, median = 0, worst = 0;  // microseconds
};

void free_on(berth::pool& pool, std::deque<berth::stream>& streams, std::vector<void*>& blocks, berth::stream& asking,
             scene what) {
  berth::event passed{streams[0].get_device()};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    berth::stream& s = streams[i % streams.size()];
    pool.free(blocks[i], block, s);
    if (i >= streams.size()) continue;
    (void)s.record(passed);
    if (what == scene::one_each) (void)asking.wait(passed);
  }
}

result measure(std::size_t count, std::size_t each, scene what) {
  std::atomic<bool> gate{false};
  const berth::device host = berth::device::host();
  berth::pool pool{host};
  std::deque<berth::stream> streams;
  for (std::size_t i = 0; i < count; ++i) streams.emplace_back(host);
  berth::stream asking{host};
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < count * each; ++i) blocks.push_back(pool.allocate_raw(block, streams[i % count]).value());
  for (berth::stream& s : streams) (void)s.call(wait_for, &gate);
  free_on(pool, streams, blocks, asking, what);
  if (what == scene::done) {
    gate = true;
    gate.notify_all();
    for (berth::stream& s : streams) (void)s.synchronize();
  }
  const double begin = berth_bench::thread_seconds();
  void* first = pool.allocate_raw(64 * block, asking).value();  // the first to see what was freed
  const double first_us = (berth_bench::thread_seconds() - begin) * 1e6;
  std::vector<double> us;
  std::vector<void*> kept;
  for (int i = 0; i < requests; ++i) {
    const double start = berth_bench::thread_seconds();
    kept.push_back(pool.allocate_raw(2048 * block, asking).value());
    us.push_back((berth_bench::thread_seconds() - start) * 1e6);
  }
  for (void* one : kept) pool.free(one);
  pool.free(first);
  gate = true;
  gate.notify_all();
  std::sort(us.begin(), us.end());
  return {first_us, us[us.size() / 2], us.back()};
}

void print(const char* name, std::size_t count, std::size_t each, scene what) {
  std::vector<result> all;
  for (int i = 0; i < turns; ++i) all.push_back(measure(count, each, what));
  const auto spread = [&all](double result::*part) {
    std::sort(all.begin(), all.end(), [part](const result& a, const result& b) { return a.*part < b.*part; });
    std::printf("  %8.2f %8.2f %8.2f", all.front().*part, all[all.size() / 2].*part, all.back().*part);
  };
  std::printf("%-9s", name);
  spread(&result::first);
  spread(&result::median);
  spread(&result::worst);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100;
  const std::size_t each = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1000;
  std::printf("%zu streams, %zu blocks each; us a request: least, median and most of %d turns\n", count, each, turns);
  std::printf("%-9s  %26s  %26s  %26s\n", "", "first request", "median request", "worst request");
  print("pending", count, each, scene::pending);
  print("one each", count, each, scene::one_each);
  print("done", count, each, scene::done);
  return 0;
}
