// No block is handed out while queued work may still touch it, and nothing is lost.
//
// Every block gets its own byte by a queued fill, and a queued call reads it back just before the block is freed. A
// block that came too early would be overwritten under that call. The oracle is the memory itself. Streams are slowed
// at random, so that work is in flight most of the time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "berth/pool/pool.hpp"
#include "pool/read_back.hpp"

namespace {
using namespace berth::literals;
using berth::block;
using berth::bytes;
using berth::device;
using berth::pool;
using berth::pool_options;
using berth::stream;

std::atomic<int> wrong{0};

void doze(void*) {
  std::this_thread::sleep_for(std::chrono::microseconds{200});
}

struct held {
  block memory;
  std::size_t on;
  int also_on;  // a second stream, or -1
  unsigned char byte;
};

// One thread drives several streams through one pool.
void play(unsigned seed, const pool_options& options, int steps, bytes largest) {
  std::mt19937 random{seed};
  const device host = device::host();
  pool p{host, options};
  std::vector<stream> streams;
  for (int i = 0; i < 3; ++i) streams.emplace_back(host);
  std::vector<held> live;
  std::vector<berth::event> events;
  for (int i = 0; i < 3; ++i) events.emplace_back(host);
  const auto give_back = [&](std::size_t i) {
    held& h = live[i];
    const std::size_t reader = h.also_on >= 0 ? static_cast<std::size_t>(h.also_on) : h.on;
    if (h.also_on >= 0) {
      // The second stream reads after the first has written.
      ASSERT_TRUE(streams[h.on].record(events[h.on]));
      ASSERT_TRUE(streams[reader].wait(events[h.on]));
      h.memory.use_on(streams[reader]).value();
    }
    berth::support::read_back(streams[reader], h.memory.data(), h.memory.size(), h.byte, wrong);
    std::swap(live[i], live.back());
    live.pop_back();
  };
  for (int step = 0; step < steps; ++step) {
    const auto what = random() % 20;
    const std::size_t on = random() % streams.size();
    if (what < 9) {
      const bytes size = 1 + random() % (random() % 4 == 0 ? largest : 3000);
      auto got = p.allocate(size, streams[on]);
      if (!got) continue;  // the limit
      const auto byte = static_cast<unsigned char>(random());
      ASSERT_TRUE(streams[on].fill(got->data(), std::byte{byte}, size));
      const int also = random() % 5 == 0 ? static_cast<int>(random() % streams.size()) : -1;
      live.push_back({std::move(*got), on, also == static_cast<int>(on) ? -1 : also, byte});
    } else if (what < 17) {
      if (!live.empty()) give_back(random() % live.size());
    } else if (what == 17) {
      ASSERT_TRUE(streams[on].call(doze, nullptr));
    } else if (what == 18) {
      const std::size_t other = random() % streams.size();
      ASSERT_TRUE(streams[other].record(events[other]));
      ASSERT_TRUE(streams[on].wait(events[other]));
    } else if (random() % 4 == 0) {
      random() % 2 == 0 ? static_cast<void>(p.trim()) : static_cast<void>(p.defragment());
    }
  }
  while (!live.empty()) give_back(0);
  const auto s = p.statistics();
  EXPECT_EQ(s.live, 0u);
  EXPECT_EQ(s.live_rounded, 0u);
  EXPECT_EQ(s.allocations, s.frees);
  EXPECT_LE(s.reserved_peak, options.limit);
}

class order : public testing::TestWithParam<int> {};

TEST_P(order, nothing_is_overwritten) {
  const pool_options shapes[] = {
      {.limit = 64_MiB},
      {.limit = 2_MiB, .wait_for_streams = true},
      {.limit = 2_MiB, .cache_bytes = 0},
      {.limit = 3_MiB, .release_threshold = 256_KiB, .stitch = false},
      {.kind = berth::memory_kind::pinned, .limit = 16_MiB, .wait_for_streams = true},
  };
  wrong = 0;
  for (const pool_options& shape : shapes) play(static_cast<unsigned>(GetParam()), shape, 600, 400'000);
  EXPECT_EQ(wrong, 0);
}
INSTANTIATE_TEST_SUITE_P(seeds, order, testing::Range(0, 8));

TEST(threads, share_a_pool_and_free_each_others_blocks) {
  const device host = device::host();
  pool p{host, {.limit = 32_MiB}};
  wrong = 0;
  std::atomic<std::uint64_t> made{0};
  std::mutex lock;
  std::deque<std::pair<block, unsigned char>> handed;
  {
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < 4; ++t) {
      workers.emplace_back([&, t] {
        std::mt19937 random{t};
        stream mine{host};
        for (int i = 0; i < 2000; ++i) {
          auto b = p.allocate(1 + random() % 20'000, mine);
          if (!b) continue;
          ++made;
          const auto byte = static_cast<unsigned char>(random());
          std::memset(b->data(), byte, b->size());
          if (random() % 4 != 0) continue;
          std::pair<block, unsigned char> other;
          const std::lock_guard held{lock};
          handed.emplace_back(std::move(*b), byte);
          if (handed.size() < 20) continue;
          other = std::move(handed.front());
          handed.pop_front();
          const auto* data = static_cast<const unsigned char*>(other.first.data());
          for (bytes j = 0; j < other.first.size(); ++j) wrong += data[j] != other.second;
        }
      });
    }
    std::jthread{[&] {
      for (int i = 0; i < 200; ++i) {
        const auto s = p.statistics();
        if (s.live > s.live_rounded || s.live_rounded + s.cached + s.free != s.reserved) ++wrong;
        std::this_thread::yield();
      }
    }};
  }
  handed.clear();
  EXPECT_EQ(wrong, 0);
  const auto s = p.statistics();
  EXPECT_EQ(s.allocations, made);
  EXPECT_EQ(s.frees, made);
  EXPECT_EQ(s.live, 0u);
}

TEST(soak, does_not_grow) {
  const device host = device::host();
  pool p{host, {.limit = 64_MiB}};
  std::mt19937 random{7};
  bytes after_warm_up = 0;
  for (int round = 0; round < 300; ++round) {
    stream queue{host};  // streams come and go
    std::vector<block> blocks;
    for (int i = 0; i < 60; ++i) {
      auto b = p.allocate(1 + random() % 300'000, queue);
      ASSERT_TRUE(b) << p.out_of_memory_report();
      if (random() % 2 == 0) blocks.push_back(std::move(*b));
    }
    if (round == 100) after_warm_up = p.statistics().reserved;
  }
  EXPECT_LE(p.statistics().reserved, after_warm_up + 4_MiB);
}

}  // namespace
