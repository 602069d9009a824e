// Pools on Vulkan memory, by the device of examples/vulkan_backend.hpp.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "../../examples/vulkan_backend.hpp"
#include "berth/pool/pool.hpp"
#include "conformance/pool_suite.hpp"

namespace berth::conformance {
namespace {

// Null if there is no Vulkan device here. One for all tests: a test that expects a death must not open a driver.
vulkan_backend* vulkan() {
  static const std::unique_ptr<vulkan_backend> the_one = []() -> std::unique_ptr<vulkan_backend> {
    try {
      return std::make_unique<vulkan_backend>();
    } catch (const vulkan_error&) {
      return nullptr;
    }
  }();
  return the_one.get();
}

class on_vulkan {
 public:
  memory_source& source() { return pool_; }
  stream& queue() { return queue_; }

 private:
  device device_ = device::make(vulkan()->functions()).value();
  stream queue_{device_};
  pool pool_{device_, {.limit = bytes{256} << 20}};
};
INSTANTIATE_TYPED_TEST_SUITE_P(vulkan, pool_suite, on_vulkan);

TEST(vulkan, a_block_is_a_buffer_and_an_offset) {
  const device d = device::make(vulkan()->functions()).value();
  {
    stream s{d};
    pool p{d};
    auto first = p.allocate(1000, s).value();
    auto second = p.allocate(1000, s).value();
    const auto a = vulkan()->locate(first.data());
    const auto b = vulkan()->locate(second.data());
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->memory, b->memory);  // one chunk
    EXPECT_EQ(static_cast<std::byte*>(second.data()) - static_cast<std::byte*>(first.data()),
              static_cast<std::ptrdiff_t>(b->offset - a->offset));
    EXPECT_EQ(d.host_address(first.data()), nullptr);
    EXPECT_EQ(vulkan()->locate(nullptr), std::nullopt);
  }
  EXPECT_EQ(vulkan()->live_blocks(), 0u);
}

TEST(vulkan, streams_run_in_order_and_wait_for_events) {
  const device d = device::make(vulkan()->functions()).value();
  stream first{d};
  stream second{d};
  auto* const from = static_cast<std::byte*>(d.allocate(4099).value());
  auto* const to = static_cast<std::byte*>(d.allocate(4099).value());
  event e{d};
  std::vector<unsigned char> seen(4099);
  for (unsigned char round = 1; round < 20; ++round) {
    ASSERT_TRUE(first.wait(e));  // the copy of the round before
    ASSERT_TRUE(first.fill(from, std::byte{round}, 4099));
    ASSERT_TRUE(first.record(e));
    ASSERT_TRUE(second.wait(e));
    ASSERT_TRUE(second.copy(to, from, 4099));
    ASSERT_TRUE(second.record(e));
    ASSERT_TRUE(second.copy(seen.data(), to, 4099));
    ASSERT_EQ(seen, std::vector<unsigned char>(4099, round));
  }
  ASSERT_TRUE(second.synchronize());
  EXPECT_TRUE(e.query().value());
  EXPECT_TRUE(second.query().value());
  d.free(from, 4099);
  d.free(to, 4099);
}

TEST(vulkan, pinned_memory_is_the_hosts_too) {
  const device d = device::make(vulkan()->functions()).value();
  stream s{d};
  void* const block = d.allocate(4096, memory_kind::pinned).value();
  auto* const bytes_of_it = static_cast<unsigned char*>(d.host_address(block));
  ASSERT_NE(bytes_of_it, nullptr);
  ASSERT_TRUE(s.fill(block, std::byte{5}, 4096));
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(bytes_of_it[4095], 5);
  d.free(block, 4096, memory_kind::pinned);
}

TEST(vulkan, more_than_the_heap_is_out_of_memory) {
  const device d = device::make(vulkan()->functions()).value();
  EXPECT_EQ(d.allocate(bytes{1} << 60).error().code, errc::out_of_memory);
}

}  // namespace
}  // namespace berth::conformance

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  if (berth::conformance::vulkan() == nullptr) {
    std::puts("skipped: no Vulkan device here");
    return 0;
  }
  return RUN_ALL_TESTS();
}
