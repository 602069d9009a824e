// Blocks that one thread asks for and another frees.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "berth/pool/pool.hpp"

namespace {
using namespace berth::literals;
using berth::bytes;
using berth::device;
using berth::pool;
using berth::stream;

// A thread that frees what it is given, until it is given null.
class consumer {
 public:
  explicit consumer(pool& p) : pool_{p}, thread_{[this] { run(); }} {}
  void free_all(const std::vector<void*>& blocks) {
    blocks_ = blocks;
    full_.release();
    empty_.acquire();
  }
  void end() {
    ends_ = true;
    full_.release();
    thread_.join();
  }

 private:
  void run() {
    for (;;) {
      full_.acquire();
      if (ends_) return;
      for (void* block : blocks_) pool_.free(block);
      empty_.release();
    }
  }
  pool& pool_;
  std::vector<void*> blocks_;
  bool ends_ = false;
  std::binary_semaphore full_{0}, empty_{0};
  std::thread thread_;
};

std::vector<void*> allocate(pool& p, stream& s, int count, bytes size) {
  std::vector<void*> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(p.allocate_raw(size, s).value());
  return blocks;
}

TEST(handover, the_producer_gets_its_blocks_back_without_the_lock) {
  pool p{device::host()};
  stream s{p.get_device()};
  consumer other{p};
  constexpr int batch = 256;
  for (int round = 0; round < 3; ++round) other.free_all(allocate(p, s, batch, 4096));
  const auto before = p.statistics();  // what was under way is in the store now
  constexpr std::uint64_t rounds = 20;
  for (std::uint64_t round = 0; round < rounds; ++round) other.free_all(allocate(p, s, batch, 4096));
  const auto after = p.statistics();
  EXPECT_GE(after.cache_hits - before.cache_hits, (rounds - 1) * batch * 95 / 100);
  EXPECT_EQ(after.reserved, before.reserved);
  EXPECT_EQ(after.allocations, after.frees);
  EXPECT_EQ(after.live_rounded, 0u);
  other.end();
}

TEST(handover, large_blocks_do_not_wait_for_a_batch) {
  pool p{device::host(), {.limit = 64_MiB}};
  stream s{p.get_device()};
  consumer other{p};
  other.free_all(allocate(p, s, 1, 40_MiB));
  EXPECT_TRUE(p.allocate(40_MiB, s));
  EXPECT_EQ(p.statistics().cache_hits, 1u);
  other.end();
}

// A batch that is not full lies with the consumer: a request that needs the memory finds it.
TEST(handover, what_is_under_way_is_found_before_a_request_fails) {
  pool p{device::host(), {.limit = 1_MiB}};
  stream s{p.get_device()};
  consumer other{p};
  other.free_all(allocate(p, s, 16, 64_KiB));
  EXPECT_TRUE(p.allocate(1_MiB, s)) << p.out_of_memory_report();
  other.end();
}

TEST(handover, either_thread_may_end_first) {
  pool p{device::host(), {.limit = 8_MiB}};
  stream s{p.get_device()};
  for (int round = 0; round < 50; ++round) {
    std::vector<void*> blocks;
    std::thread{[&] { blocks = allocate(p, s, 40, 1000); }}.join();
    std::thread{[&] {
      for (void* block : blocks) p.free(block);
    }}.join();
    consumer other{p};
    other.free_all(allocate(p, s, 40, 1000));
    other.end();
  }
  const auto now = p.statistics();
  EXPECT_EQ(now.allocations, now.frees);
  EXPECT_EQ(now.live_rounded, 0u);
  EXPECT_LE(now.reserved, 1_MiB);
}

TEST(handover, a_double_free_of_what_is_under_way_is_found) {
  pool p{device::host(), {.report_leaks = false}};
  stream s{p.get_device()};
  void* const block = p.allocate_raw(1000, s).value();
  std::thread{[&] {
    p.free(block);
    EXPECT_DEATH(p.free(block), "double free|freed twice");
  }}.join();
}

// Each thread frees what any other has asked for. Blocks carry their owner's byte, so two owners at once are seen.
TEST(handover, blocks_go_round_among_threads) {
  pool p{device::host(), {.limit = 64_MiB}};
  std::mutex mutex;
  std::deque<std::pair<void*, bytes>> passed;
  std::atomic<int> wrong{0};
  std::atomic<std::uint64_t> made{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t <= 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random{t};
        stream s{p.get_device()};
        for (int i = 0; i < 4000; ++i) {
          const bytes size = 64 * (1 + random() % 40);
          const auto got = p.allocate_raw(size, s);
          if (!got) continue;
          ++made;
          std::memset(*got, static_cast<int>(t), size);
          if (random() % 64 == 0) (void)p.statistics();
          std::pair<void*, bytes> other{};
          {
            const std::lock_guard held{mutex};
            passed.emplace_back(*got, size);
            if (passed.size() < 50) continue;
            std::swap(passed[random() % passed.size()], passed.front());
            other = passed.front();
            passed.pop_front();
          }
          const auto* data = static_cast<const unsigned char*>(other.first);
          for (bytes j = 1; j < other.second; ++j) wrong += data[j] != data[0];
          p.free(other.first, berth::source_location::current());
        }
      });
    }
  }
  for (const auto& [block, size] : passed) p.free(block);
  EXPECT_EQ(wrong, 0);
  const auto now = p.statistics();
  EXPECT_EQ(now.allocations, made);
  EXPECT_EQ(now.frees, made);
  EXPECT_EQ(now.live, 0u);
  EXPECT_EQ(now.live_rounded, 0u);
}

}  // namespace
