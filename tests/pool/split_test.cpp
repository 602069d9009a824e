// A block that gives back all but some parts of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/pool/debug.hpp"
#include "berth/pool/pool.hpp"
#include "pool/gate.hpp"
#include "pool/quiet_device.hpp"

namespace berth {
namespace {
using namespace literals;

std::byte* byte_at(void* data, bytes offset) {
  return static_cast<std::byte*>(data) + offset;
}

TEST(pool_split, parts_stay_where_they_were_and_the_rest_is_free) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 8_MiB}};
  void* const whole = p.allocate_raw(6_MiB, queue).value();
  std::memset(whole, 1, 6_MiB);
  std::vector<block_part> parts{{0, 1000}, {1_MiB, 64_KiB}, {6_MiB - 64, 64}};
  ASSERT_TRUE(p.split(whole, parts));
  for (const block_part& part : parts) {
    EXPECT_EQ(p.size_of(byte_at(whole, part.offset)), part.size);
    std::memset(byte_at(whole, part.offset), 2, part.size);
  }
  const auto s = p.statistics();
  EXPECT_EQ(s.live, 1000 + 64_KiB + 64);
  EXPECT_EQ(s.live_blocks, 3u);
  EXPECT_EQ(s.allocations - s.frees, 3u);
  void* const rest = p.allocate_raw(7_MiB, queue).value();  // stitched of the rest and what the limit leaves
  std::memset(rest, 3, 7_MiB);
  for (const block_part& part : parts) {
    EXPECT_TRUE(std::all_of(byte_at(whole, part.offset), byte_at(whole, part.offset + part.size),
                            [](std::byte b) { return b == std::byte{2}; }));
    p.free(byte_at(whole, part.offset), part.size, queue);
  }
  p.free(rest);
  EXPECT_EQ(p.statistics().live, 0u);
  ASSERT_TRUE(queue.synchronize());
  (void)p.trim();
  EXPECT_EQ(p.statistics().reserved, 0u);
}

TEST(pool_split, nothing_or_all_may_stay) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  void* const whole = p.allocate_raw(1_MiB, queue).value();
  const block_part all{0, 1_MiB};
  ASSERT_TRUE(p.split(whole, {&all, 1}));
  EXPECT_EQ(p.size_of(whole), 1_MiB);
  ASSERT_TRUE(p.split(whole, {}));
  EXPECT_FALSE(p.size_of(whole));
  EXPECT_EQ(p.statistics().live_blocks, 0u);
}

TEST(pool_split, the_rest_is_the_streams_until_its_work_is_done) {
  const auto quiet = support::make_quiet(device::host());
  stream mine{quiet.device}, other{quiet.device};
  pool p{quiet.device, {.limit = 4_MiB}};
  void* const whole = p.allocate_raw(4_MiB, mine).value();
  support::gate late;
  late.hold(mine);
  const block_part kept{0, 64_KiB};
  ASSERT_TRUE(p.split(whole, {&kept, 1}));
  EXPECT_FALSE(p.allocate(1_MiB, other));
  EXPECT_TRUE(p.allocate(1_MiB, mine));
  late.open();
  ASSERT_TRUE(mine.synchronize());
  EXPECT_TRUE(p.allocate(1_MiB, other));
  p.free(whole);
}

TEST(pool_split, what_cannot_be_split_is_left_as_it_was) {
  stream queue{device::host()}, other{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .cache_bytes = 0}};
  const block_part half{0, 64_KiB};
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) all.push_back(p.allocate_raw(128_KiB, queue).value());
  for (std::size_t i = 0; i < 8; i += 2) p.free(all[i]);
  void* const stitched = p.allocate_raw(500_KiB, queue).value();
  EXPECT_TRUE(p.in_one_piece(all[1]));
  EXPECT_FALSE(p.in_one_piece(stitched));
  EXPECT_FALSE(p.split(stitched, {&half, 1}));
  EXPECT_EQ(p.size_of(stitched), 500_KiB);
  p.use_on(all[1], other).value();
  EXPECT_FALSE(p.split(all[1], {&half, 1}));
  EXPECT_EQ(p.size_of(all[1]), 128_KiB);
  p.free(stitched);
  for (std::size_t i = 1; i < 8; i += 2) p.free(all[i]);
}

TEST(pool_split, wrong_parts_are_a_broken_contract) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  const auto block = p.allocate(128_KiB, queue);
  const auto split = [&](std::vector<block_part> parts) { (void)p.split(block->data(), parts); };
  EXPECT_DEATH(split({{0, 65}, {64, 64}}), "overlap");
  EXPECT_DEATH(split({{64, 64}, {0, 64}}), "overlap");
  EXPECT_DEATH(split({{1, 64}}), "overlap");
  EXPECT_DEATH(split({{0, 0}}), "overlap");
  EXPECT_DEATH(split({{64, 128_KiB}}), "do not lie");
  EXPECT_DEATH(split({{0, max_bytes}}), "do not lie");
  EXPECT_DEATH(split({{max_bytes - 63, 64}}), "do not lie");
  EXPECT_DEATH((void)p.split(byte_at(block->data(), 64), {}), "no live block");
}

// Keeps the live bytes by the events, and checks that they do not overlap.
struct listener {
  std::mutex lock;
  std::map<std::uintptr_t, bytes> live;
  static void hear(void* self, const memory_event& e) noexcept {
    auto& my = *static_cast<listener*>(self);
    const std::lock_guard held{my.lock};
    const auto at = reinterpret_cast<std::uintptr_t>(e.address);
    if (e.kind == memory_event_kind::pool_free) {
      const auto found = my.live.find(at);
      EXPECT_TRUE(found != my.live.end() && found->second == e.size);
      if (found != my.live.end()) my.live.erase(found);
    } else if (e.kind == memory_event_kind::pool_allocate) {
      const auto next = my.live.lower_bound(at);
      EXPECT_TRUE(next == my.live.end() || next->first >= at + e.size);
      EXPECT_TRUE(next == my.live.begin() || std::prev(next)->first + std::prev(next)->second <= at);
      my.live[at] = e.size;
    }
  }
};

TEST(pool_split, whatever_is_split_no_two_blocks_overlap_and_all_comes_back) {
  listener heard;
  const hook listening{.function = &listener::hear, .context = &heard};
  const hook* const before = set_hook(&listening);
  for (unsigned seed = 1; seed <= 40; ++seed) {
    std::mt19937 random{seed};
    std::vector<stream> streams;
    for (unsigned i = 0; i < 1 + seed % 3; ++i) streams.emplace_back(device::host());
    pool p{device::host(), {.limit = 16_MiB}};
    std::vector<std::pair<void*, bytes>> live;
    for (int i = 0; i < 300; ++i) {
      const auto pick = [&] {
        std::swap(live[random() % live.size()], live.back());
        const auto b = live.back();
        live.pop_back();
        return b;
      };
      if (live.empty() || random() % 3 == 0) {
        const bytes size = 1 + random() % (random() % 4 == 0 ? 4_MiB : 64_KiB);
        if (const auto made = p.allocate_raw(size, streams[random() % streams.size()])) live.emplace_back(*made, size);
      } else if (random() % 2 == 0) {
        p.free(pick().first);
      } else {
        const auto [data, size] = pick();
        std::vector<block_part> parts;
        for (bytes at = 0;;) {
          at += 64 * (random() % (random() % 3 == 0 ? 1 : 500));
          const bytes n = 1 + random() % 20'000;
          if (at >= size || n > size - at) break;
          parts.push_back({at, n});
          at = align_up(at + n, 64);
        }
        if (!p.split(data, parts)) {
          live.emplace_back(data, size);
          continue;
        }
        for (const block_part& part : parts) live.emplace_back(byte_at(data, part.offset), part.size);
      }
    }
    bytes sum = 0;
    for (const auto& [data, size] : live) sum += size;
    EXPECT_EQ(p.statistics().live, sum);
    EXPECT_EQ(p.statistics().live_blocks, live.size());
    for (const auto& [data, size] : live) p.free(data);
    EXPECT_EQ(p.statistics().live, 0u);
    for (stream& s : streams) ASSERT_TRUE(s.synchronize());
    (void)p.trim();
    EXPECT_EQ(p.statistics().reserved, 0u);
    EXPECT_TRUE(heard.live.empty());
  }
  set_hook(before);
}

TEST(pool_split, other_threads_free_parts_while_blocks_are_split) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB}};
  std::mutex lock;
  std::vector<void*> shared;
  bool over = false;
  {
    std::vector<std::jthread> takers;
    for (int t = 0; t < 2; ++t) {
      takers.emplace_back([&] {
        for (;;) {
          void* data = nullptr;
          {
            const std::lock_guard held{lock};
            if (shared.empty() && over) return;
            if (!shared.empty()) {
              data = shared.back();
              shared.pop_back();
            }
          }
          p.free(data);
          (void)p.allocate(5000, queue);
          if (data == nullptr) std::this_thread::yield();
        }
      });
    }
    for (int i = 0; i < 500; ++i) {
      void* const whole = p.allocate_raw(256_KiB, queue).value();
      const std::vector<block_part> parts{{64, 5000}, {64_KiB, 100}, {128_KiB, 5000}};
      if (!p.split(whole, parts)) {  // stitched
        p.free(whole);
        continue;
      }
      const std::lock_guard held{lock};
      for (const block_part& part : parts) shared.push_back(byte_at(whole, part.offset));
    }
    const std::lock_guard held{lock};
    over = true;
  }
  EXPECT_EQ(p.statistics().live, 0u);
}

TEST(pool_split, a_watched_pool_splits_nothing) {
  set_debug({});
  {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB}};
    const auto block = p.allocate(64_KiB, queue);
    EXPECT_FALSE(p.split(block->data(), {}));
    EXPECT_TRUE(p.in_one_piece(block->data()));
  }
  end_debug();
}

}  // namespace
}  // namespace berth
