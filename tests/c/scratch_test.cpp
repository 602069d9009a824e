#include "berth/c/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "berth/scratch/scratch_arena.hpp"
#include "berth/stack_alloc.h"
#include "c/kernel.h"

namespace {

bool aligned(const void* p, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

TEST(c_scratch, serves_a_kernel_in_c) {
  std::vector<float> x(6000, 0.0F);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 2.0F;
  float sum = 0;
  ASSERT_EQ(sum_of_squares(2000, x.data(), 3, &sum), 0);
  EXPECT_EQ(sum, 8000.0F);
  EXPECT_EQ(berth_scratch_statistics_of_thread().in_use, 0u);
}

TEST(c_scratch, buffers_that_take_turns_for_long_need_the_memory_of_two) {
  berth_scratch_trim();
  ASSERT_EQ(ping_pong(1000, 4096), 0);
  const std::uint64_t early = berth_scratch_statistics_of_thread().reserved;
  ASSERT_EQ(ping_pong(100'000, 4096), 0);
  const berth_scratch_statistics s = berth_scratch_statistics_of_thread();
  EXPECT_EQ(s.reserved, early);
  EXPECT_LE(s.reserved, 4u * 2 * 4096);
  EXPECT_LE(s.peak, 2u * (4096 + 128));
  EXPECT_EQ(s.in_use, 0u);
}

TEST(c_scratch, blocks_of_random_sizes_in_random_order_stay_below_four_times_what_lives) {
  berth_scratch_trim();
  std::mt19937 random{1};
  std::vector<std::pair<unsigned char*, std::size_t>> blocks(30, {nullptr, 0});
  std::size_t now = 0;
  std::size_t live = 0;
  for (int i = 0; i < 50'000; ++i) {
    auto& [data, size] = blocks[random() % blocks.size()];
    EXPECT_TRUE(data == nullptr || (data[0] == size % 251 && data[size - 1] == size % 251));
    berth_scratch_free(data);
    now -= size;
    size = 64 + random() % 65'473;
    const std::size_t alignment = random() % 4 == 0 ? 256 : 64;
    data = static_cast<unsigned char*>(berth_scratch_allocate_aligned(size, 1, alignment));
    ASSERT_TRUE(aligned(data, alignment));
    data[0] = data[size - 1] = static_cast<unsigned char>(size % 251);
    now += size;
    live = std::max(live, now);
  }
  EXPECT_LE(berth_scratch_statistics_of_thread().reserved, 4 * live);
  berth::this_thread_arena().check_invariants();
  for (const auto& b : blocks) berth_scratch_free(b.first);
  EXPECT_EQ(berth_scratch_statistics_of_thread().in_use, 0u);
}

TEST(c_stack_alloc, serves_a_kernel_written_for_openblas) {
  const std::vector<float> x(5000, 2.0F);
  const std::vector<float> y(5000, 3.0F);
  float sum = 0;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{120}, x.size()}) {
    ASSERT_EQ(sum_of_products(n, x.data(), y.data(), &sum), 0);
    EXPECT_EQ(sum, 6.0F * static_cast<float>(n));
  }
  EXPECT_EQ(berth_scratch_statistics_of_thread().in_use, 0u);
  sum = -1;
  EXPECT_EQ(sum_of_products(std::numeric_limits<std::size_t>::max(), x.data(), y.data(), &sum), -1);
  EXPECT_EQ(sum, -1.0F);
}

#if !defined(BERTH_SCRATCH_POISONS)
TEST(c_stack_alloc_death, an_overrun_is_noticed_in_every_build) {
  float* buffer = nullptr;
  STACK_ALLOC(100, float, buffer);
  ASSERT_NE(buffer, nullptr);
  EXPECT_DEATH(
      {
        static_cast<volatile char*>(static_cast<void*>(buffer))[400] = 1;
        STACK_FREE(buffer);
      },
      "past the end of a block of 400 bytes");
  STACK_FREE(buffer);
}
#endif

TEST(c_scratch, is_aligned_and_freed_in_any_order) {
  void* a = berth_scratch_allocate(3, 5);
  void* b = berth_scratch_allocate_aligned(100, 8, 4096);
  void* c = berth_scratch_allocate(0, 8);
  ASSERT_TRUE(a && b && c);
  EXPECT_TRUE(aligned(a, 64));
  EXPECT_TRUE(aligned(b, 4096));
  std::memset(b, 1, 800);
  berth_scratch_free(b);
  berth_scratch_free(a);
  berth_scratch_free(c);
  berth_scratch_free(nullptr);
  const berth_scratch_statistics s = berth_scratch_statistics_of_thread();
  EXPECT_EQ(s.in_use, 0u);
  EXPECT_GE(s.blocks, 3u);
  EXPECT_GE(s.peak, 4096u);
  berth_scratch_trim();
  EXPECT_EQ(berth_scratch_statistics_of_thread().reserved, 0u);
}

TEST(c_scratch, the_topmost_block_gives_its_padding_back) {
  void* first = berth_scratch_allocate(1, 1);
  const std::uint64_t before = berth_scratch_statistics_of_thread().in_use;
  berth_scratch_free(berth_scratch_allocate_aligned(1, 1, 8192));
  EXPECT_EQ(berth_scratch_statistics_of_thread().in_use, before);
  berth_scratch_free(first);
}

TEST(c_scratch, a_product_that_overflows_is_null) {
  EXPECT_EQ(berth_scratch_allocate(std::numeric_limits<std::uint64_t>::max(), 2), nullptr);
  EXPECT_EQ(berth_scratch_allocate((std::uint64_t{1} << 62) + 1, 4), nullptr);
  if constexpr (sizeof(std::size_t) == 4) {
    EXPECT_EQ(berth_scratch_allocate((std::uint64_t{1} << 32) + 1, 1), nullptr);
    EXPECT_EQ(berth_scratch_allocate((std::uint64_t{1} << 30) + 1, 4), nullptr);
  }
}

TEST(c_scratch, tells_how_much_stack_is_left) {
#if !defined(BERTH_SCRATCH_POISONS)
  EXPECT_GT(berth_stack_left(), 0u);
#endif
}

using c_scratch_death = testing::Test;

TEST(c_scratch_death, misuse) {
  static char foreign[256];
  EXPECT_DEATH(berth_scratch_free(foreign + (64 - reinterpret_cast<std::uintptr_t>(foreign) % 64) + 8),
               "scratch_test.cpp:[0-9]+: contract: .*not a scratch block");
  EXPECT_DEATH((void)berth_scratch_allocate_aligned(1, 1, 32),
               "scratch_test.cpp:[0-9]+: contract: .*an alignment is a power of two");
  void* block = berth_scratch_allocate(1000, 1);
  EXPECT_DEATH(std::thread([=] { berth_scratch_free(block); }).join(),
               "scratch_test.cpp:[0-9]+: contract: .*on a thread that its arena does not belong to");
#if !defined(BERTH_SCRATCH_POISONS)
  EXPECT_DEATH(
      {
        static_cast<volatile char*>(block)[1000] = 1;
        berth_scratch_free(block);
      },
      "scratch_test.cpp:[0-9]+: contract: .*past the end of a block of 1000 bytes");
  void* other = berth_scratch_allocate(10, 1);
  berth_scratch_free(other);
  EXPECT_DEATH(berth_scratch_free(other), "scratch_test.cpp:[0-9]+: contract: .*does not live in this arena");
#endif
  EXPECT_DEATH((berth_scratch_free)(foreign + 1), "berth_scratch_free:0: contract: ");  // what other languages call
  berth_scratch_free(block);
}

}  // namespace
