#include "berth/pool/pool.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace {
using namespace berth::literals;
using berth::device;
using berth::pool;
using berth::stream;

TEST(pool, a_block_is_memory_and_comes_back_on_the_same_stream) {
  const device host = device::host();
  stream queue{host};
  pool p{host};
  void* first = nullptr;
  {
    auto block = p.allocate(1000, queue);
    ASSERT_TRUE(block);
    first = block->data();
    EXPECT_EQ(block->size(), 1000u);
    std::memset(first, 1, 1000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  }
  auto again = p.allocate(1000, queue);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->data(), first);
  const auto s = p.statistics();
  EXPECT_EQ(s.allocations, 2u);
  EXPECT_EQ(s.frees, 1u);
  EXPECT_EQ(s.cache_hits, 1u);
  EXPECT_EQ(s.device_hits, 1u);
  EXPECT_EQ(s.live, 1000u);
  EXPECT_EQ(s.live_peak, 1000u);
  EXPECT_EQ(s.live_rounded, 1024u);
  EXPECT_EQ(s.reserved, s.live_rounded + s.cached + s.free);
}

TEST(pool, size_zero_is_an_empty_block) {
  stream queue{device::host()};
  pool p{device::host()};
  auto block = p.allocate(0, queue);
  ASSERT_TRUE(block);
  EXPECT_FALSE(*block);
  EXPECT_EQ(p.statistics().reserved, 0u);
}

TEST(pool, stitches_when_no_hole_fits) {
  const device host = device::host();
  stream queue{host};
  pool p{host, {.limit = 1_MiB, .cache_bytes = 0}};
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) all.push_back(p.allocate_raw(128_KiB, queue).value());
  for (int i = 0; i < 8; i += 2) p.free(all[i], 128_KiB, queue);
  auto wide = p.allocate(500_KiB, queue);
  ASSERT_TRUE(wide) << p.out_of_memory_report();
  std::memset(wide->data(), 7, 500_KiB);
  EXPECT_EQ(p.statistics().stitched, 1u);
  for (int i = 1; i < 8; i += 2) p.free(all[i], 128_KiB, queue);
}
}  // namespace
