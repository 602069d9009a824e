// The suite of every source of blocks: one body for the pool, each adaptor and any stack of them.
//
// A fixture has a member `source()` that gives a fresh berth::memory_source& on a device with at least 16 MiB, and
// `queue()`, a stream of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "berth/pool/memory_source.hpp"
#include "support/workloads.hpp"

namespace berth::conformance {

template <class Fixture>
class pool_suite : public testing::Test {
 protected:
  Fixture fixture;
};

TYPED_TEST_SUITE_P(pool_suite);

TYPED_TEST_P(pool_suite, blocks_are_disjoint_memory) {
  memory_source& source = this->fixture.source();
  stream& queue = this->fixture.queue();
  std::vector<block> blocks;
  for (int i = 0; i < 50; ++i) {
    auto b = source.allocate(static_cast<bytes>(100 + i * 1000), queue);
    ASSERT_TRUE(b);
    ASSERT_TRUE(queue.fill(b->data(), static_cast<std::byte>(i), b->size()));
    blocks.push_back(std::move(*b));
  }
  for (int i = 0; i < 50; ++i) {
    std::vector<std::byte> data(blocks[i].size());
    ASSERT_TRUE(queue.copy(data.data(), blocks[i].data(), data.size()));
    ASSERT_TRUE(queue.synchronize());
    for (const std::byte one : data) ASSERT_EQ(one, static_cast<std::byte>(i));
  }
}

TYPED_TEST_P(pool_suite, size_zero_takes_nothing) {
  auto b = this->fixture.source().allocate(0, this->fixture.queue());
  ASSERT_TRUE(b);
  EXPECT_EQ(b->data(), nullptr);
}

TYPED_TEST_P(pool_suite, absurd_sizes_and_alignments_are_errors) {
  memory_source& source = this->fixture.source();
  stream& queue = this->fixture.queue();
  EXPECT_FALSE(source.allocate(max_bytes, queue));
  EXPECT_FALSE(source.allocate(max_bytes / 2, queue));
  EXPECT_FALSE(source.allocate(64, queue, block_options{.alignment = 3}));
  EXPECT_FALSE(source.allocate(64, queue, block_options{.alignment = bytes{1} << 62}));
  EXPECT_TRUE(source.allocate(64, queue));
}

TYPED_TEST_P(pool_suite, alignments_hold) {
  for (bytes alignment = 1; alignment <= (bytes{1} << 20); alignment *= 4) {
    auto b = this->fixture.source().allocate(100, this->fixture.queue(), block_options{.alignment = alignment});
    ASSERT_TRUE(b);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->data()) % alignment, 0u);
  }
}

TYPED_TEST_P(pool_suite, a_released_block_is_freed_raw) {
  memory_source& source = this->fixture.source();
  stream& queue = this->fixture.queue();
  auto b = source.allocate(1000, queue);
  ASSERT_TRUE(b);
  void* const data = b->release();
  EXPECT_FALSE(*b);
  source.free(data, 1000, queue);
}

TYPED_TEST_P(pool_suite, a_double_free_is_a_broken_contract) {
  memory_source& source = this->fixture.source();
  stream& queue = this->fixture.queue();
  void* const data = source.allocate_raw(1000, queue).value();
  source.free(data);
  EXPECT_DEATH(source.free(data), "double free|freed twice");
}

TYPED_TEST_P(pool_suite, a_foreign_pointer_is_a_broken_contract) {
  int mine = 0;
  EXPECT_DEATH(this->fixture.source().free(&mine), "no block of");
}

TYPED_TEST_P(pool_suite, another_size_or_stream_is_a_broken_contract) {
  memory_source& source = this->fixture.source();
  stream& queue = this->fixture.queue();
  stream other{source.get_device()};
  void* const data = source.allocate_raw(1000, queue).value();
  EXPECT_DEATH(source.free(data, 999, queue), "another size");
  EXPECT_DEATH(source.free(data, 1000, other), "another stream");
  source.free(data, 1000, queue);
}

// Sizes that change in each step, no trim and no synchronisation. Guards may add zones and a quarantine, and a pool
// that cannot stitch needs more.
TYPED_TEST_P(pool_suite, holds_no_more_than_the_live_bytes_need) {
  memory_source& source = this->fixture.source();
  stream& queue = this->fixture.queue();
  const device of = source.get_device();
  const bytes before = of.statistics().held;
  const workloads::workload clips = workloads::clips(5, 400);
  bytes most = 0;
  const auto allocate = [&](bytes size, std::uint32_t) {
    void* const data = source.allocate_raw(size, queue).value_or(nullptr);
    most = std::max(most, of.statistics().held - before);
    return data;
  };
  ASSERT_TRUE(
      workloads::play(clips, allocate, [&](void* data, bytes size, std::uint32_t) { source.free(data, size, queue); }));
  EXPECT_LE(most, workloads::bound(clips) + clips.peak_live + (bytes{4} << 20));
}

REGISTER_TYPED_TEST_SUITE_P(pool_suite, blocks_are_disjoint_memory, size_zero_takes_nothing,
                            absurd_sizes_and_alignments_are_errors, alignments_hold, a_released_block_is_freed_raw,
                            a_double_free_is_a_broken_contract, a_foreign_pointer_is_a_broken_contract,
                            another_size_or_stream_is_a_broken_contract, holds_no_more_than_the_live_bytes_need);

}  // namespace berth::conformance
