// Streams over native ones. Another stream of ours stands for the program's own calls to the driver: what is enqueued
// there, the wrapping stream does not see. On the devices of this machine, or on the one that BERTH_DEVICE names.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>

#include "berth/pool/pool.hpp"
#include "conformance/device_suite.hpp"

namespace berth::conformance {
namespace {

void count_up(void* count) {
  static_cast<std::atomic<int>*>(count)->fetch_add(1);
}

class foreign_stream : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* const named = std::getenv("BERTH_DEVICE");
    auto opened = device::open(named != nullptr ? named : GetParam());
    if (!opened) GTEST_SKIP() << GetParam() << ": " << opened.error().what;
    device_.emplace(*opened);
    native_.emplace(*opened);
    wrapped_.emplace(stream::wrap(*opened, native_->native()).value());
  }
  void TearDown() override {
    if (wrapped_) {
      EXPECT_TRUE(native_->synchronize());
    }
  }
  [[nodiscard]] bool has_host_functions() const {
    gate none;
    none.open();
    const auto done = wrapped_->call(gate::pass, &none);
    return done.has_value() && wrapped_->synchronize().has_value();
  }

  std::optional<device> device_;
  mutable std::optional<stream> native_;
  mutable std::optional<stream> wrapped_;
};

TEST_P(foreign_stream, is_the_native_one) {
  EXPECT_EQ(wrapped_->native(), native_->native());
  EXPECT_NE(wrapped_->id(), native_->id());
  EXPECT_EQ(wrapped_->get_device(), *device_);
}

TEST_P(foreign_stream, covers_what_was_enqueued_natively) {
  gate g;
  std::atomic<int> ran{0};
  event e{*device_};
  ASSERT_TRUE(native_->call(gate::pass, &g));
  ASSERT_TRUE(native_->call(count_up, &ran));
  const std::uint64_t epoch = wrapped_->epoch();
  ASSERT_TRUE(wrapped_->record(e));
  EXPECT_FALSE(*e.query());
  EXPECT_FALSE(*wrapped_->query());
  EXPECT_LT(wrapped_->completed(), epoch);
  g.open();
  ASSERT_TRUE(e.synchronize());
  EXPECT_EQ(ran.load(), 1);
  EXPECT_GE(wrapped_->completed(), epoch);
}

// The wrapping stream has no new work since it was last found done.
TEST_P(foreign_stream, an_idle_stream_may_have_work_the_next_moment) {
  ASSERT_TRUE(wrapped_->synchronize());
  for (int i = 0; i < 20; ++i) {
    gate g;
    std::atomic<int> ran{0};
    ASSERT_TRUE(native_->call(gate::pass, &g));
    ASSERT_TRUE(native_->call(count_up, &ran));
    const std::uint64_t epoch = wrapped_->epoch();
    const auto early = wrapped_->query();
    ASSERT_TRUE(early) << early.error().what << " " << early.error().number;
    EXPECT_FALSE(*early);
    EXPECT_LT(wrapped_->completed(), epoch);
    g.open();
    for (auto done = wrapped_->query(); !done || !*done; done = wrapped_->query()) {
      ASSERT_TRUE(done) << done.error().what << " " << done.error().number;
    }
    EXPECT_EQ(ran.load(), 1);
    EXPECT_GE(wrapped_->completed(), epoch);
  }
}

TEST_P(foreign_stream, runs_in_order_with_native_work) {
  constexpr bytes size = 4096;
  auto* block = static_cast<std::byte*>(device_->allocate(size).value());
  void* pinned = device_->allocate(size, memory_kind::pinned).value();
  ASSERT_TRUE(native_->fill(block, std::byte{1}, size));
  ASSERT_TRUE(wrapped_->fill(block, std::byte{2}, size / 2));
  ASSERT_TRUE(native_->copy(pinned, block, size));
  ASSERT_TRUE(wrapped_->synchronize());
  const auto* got = static_cast<const std::byte*>(device_->host_address(pinned));
  EXPECT_EQ(got[0], std::byte{2});
  EXPECT_EQ(got[size - 1], std::byte{1});
  device_->free(block, size);
  device_->free(pinned, size, memory_kind::pinned);
}

TEST_P(foreign_stream, host_functions_run_where_the_driver_has_them) {
  if (!has_host_functions()) {
    gate none;
    EXPECT_EQ(wrapped_->call(gate::pass, &none).error().code, errc::unsupported);
    GTEST_SKIP() << "no host functions on foreign streams";
  }
  std::atomic<int> ran{0};
  ASSERT_TRUE(wrapped_->call(count_up, &ran));
  ASSERT_TRUE(native_->call(count_up, &ran));
  ASSERT_TRUE(wrapped_->synchronize());
  EXPECT_EQ(ran.load(), 2);
}

TEST_P(foreign_stream, its_end_waits_and_leaves_the_native_stream) {
  std::atomic<int> ran{0};
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(native_->call(count_up, &ran));
  const auto clock = wrapped_->clock();
  wrapped_.reset();
  EXPECT_EQ(ran.load(), 100);
  EXPECT_EQ(clock->completed(), stream_clock::ended);
  ASSERT_TRUE(native_->call(count_up, &ran));
  ASSERT_TRUE(native_->synchronize());
  EXPECT_EQ(ran.load(), 101);
}

// A pool's block is used natively, freed while that work waits, and given out again only after it has run.
TEST_P(foreign_stream, a_pool_gives_no_block_before_native_work_is_done) {
  pool p{*device_, {.limit = bytes{8} << 20}};
  stream other{*device_};
  constexpr bytes size = bytes{6} << 20;
  gate g;
  std::atomic<int> ran{0};
  auto block = p.allocate(size, *wrapped_);
  ASSERT_TRUE(block);
  ASSERT_TRUE(native_->call(gate::pass, &g));
  ASSERT_TRUE(native_->fill(block->data(), std::byte{1}, size));
  ASSERT_TRUE(native_->call(count_up, &ran));
  block->reset();
  auto early = p.allocate(size, other);
  if (early) {
    // Given only if the work on it is ordered behind: the other stream then waits for the gate.
    EXPECT_FALSE(*other.query());
  }
  g.open();
  ASSERT_TRUE(wrapped_->synchronize());
  EXPECT_EQ(ran.load(), 1);
  if (!early) {
    EXPECT_TRUE(p.allocate(size, other));
  }
  ASSERT_TRUE(other.synchronize());
}

TEST_P(foreign_stream, null_is_the_default_stream_or_an_error) {
  auto made = stream::wrap(*device_, nullptr);
  const std::string name = device_->properties().name;
  if (name.starts_with("cuda") || name.starts_with("ascend")) {
    ASSERT_TRUE(made) << made.error().what;
    void* block = device_->allocate(64).value();
    EXPECT_TRUE(made->fill(block, std::byte{1}, 64));
    EXPECT_TRUE(made->synchronize());
    EXPECT_EQ(made->native(), nullptr);
    device_->free(block, 64);
  } else {
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, errc::invalid_input);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, foreign_stream, testing::Values("host", "opencl:0"));

}  // namespace
}  // namespace berth::conformance
