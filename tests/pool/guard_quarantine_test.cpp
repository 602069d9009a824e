// Freed blocks in quarantine: writes to them are found, and work that was queued before is not accused.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "pool/gate.hpp"
#include "pool/guarded.hpp"

namespace berth {
namespace {
using namespace literals;
using namespace support;

using guard_quarantine_death = stopping_guard;

TEST_F(guard_quarantine_death, a_write_to_the_first_byte_after_the_free) {
  unsigned char* const b = take(500);
  guard_.free(b);
  const int line = __LINE__ - 1;
  b[0] = 1;
  EXPECT_DEATH(guard_.check(),
               stops(line, "write after free: byte 0 of the block of 500 bytes .*freed at .*" + at_line(line)));
  b[0] = 0xdd;
}
TEST_F(guard_quarantine_death, a_write_to_the_last_byte_after_the_free) {
  unsigned char* const b = take(500);
  guard_.free(b);
  const int line = __LINE__ - 1;
  b[499] = 1;
  EXPECT_DEATH(guard_.check(), stops(line, "write after free: byte 499"));
  b[499] = 0xdd;
}
TEST_F(guard_quarantine_death, a_write_by_the_stream_after_the_free) {
  unsigned char* const b = take(5000);
  guard_.free(b);
  const int line = __LINE__ - 1;
  ASSERT_TRUE(queue_.fill(b + 2000, std::byte{3}, 10));
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_DEATH(guard_.check(), stops(line, "write after free: byte 2000 .*is 0x03"));
  std::memset(b + 2000, 0xdd, 10);
}
TEST_F(guard_quarantine_death, work_of_another_stream_that_nobody_was_told_of) {
  unsigned char* const b = take(5000);
  support::gate g;
  g.hold(other_);
  ASSERT_TRUE(other_.fill(b, std::byte{3}, 10));  // without use_on
  guard_.free(b);
  const int line = __LINE__ - 1;
  g.open();
  ASSERT_TRUE(other_.synchronize());
  EXPECT_DEATH(guard_.check(), stops(line, "write after free: byte 0 .*is 0x03"));
  std::memset(b, 0xdd, 10);
}
TEST_F(guard_quarantine_death, an_overrun_after_the_free) {
  unsigned char* const b = take(500);
  guard_.free(b);
  const int line = __LINE__ - 1;
  b[500] = 1;
  EXPECT_DEATH(guard_.check(), stops(line, "overrun behind: byte 500 .*freed at"));
  b[500] = 0xfd;
}
TEST_F(guard_quarantine_death, a_write_after_the_free_is_found_when_the_block_leaves_the_quarantine) {
  guard_adaptor guard{pool_, {.quarantine = 100'000, .leaks = false}};
  unsigned char* const b = bytes_of(guard.allocate_raw(500, queue_).value());
  guard.free(b);
  const int line = __LINE__ - 1;
  b[7] = 1;
  const auto push_out = [&] {
    for (int i = 0; i < 300; ++i) guard.free(guard.allocate_raw(500, queue_).value());
  };
  EXPECT_DEATH(push_out(), stops(line, "write after free: byte 7"));
  b[7] = 0xdd;
}
TEST_F(guard_quarantine_death, a_write_after_the_free_is_found_by_the_period) {
  guard_adaptor guard{pool_, {.check_every = 10, .leaks = false}};
  unsigned char* const b = bytes_of(guard.allocate_raw(500, queue_).value());
  guard.free(b);
  const int line = __LINE__ - 1;
  b[7] = 1;
  const auto some_calls = [&] {
    for (int i = 0; i < 5; ++i) guard.free(guard.allocate_raw(10, queue_).value());
  };
  EXPECT_DEATH(some_calls(), stops(line, "write after free: byte 7"));
  b[7] = 0xdd;
}

using guard_quarantine = telling_guard;

TEST_F(guard_quarantine, the_quarantine_gives_way_to_a_request_that_would_fail) {
  guard_adaptor guard{pool_, {.quarantine = 64_MiB}};
  for (int i = 0; i < 20; ++i) guard.free(guard.allocate_raw(3_MiB, queue_).value());
  EXPECT_EQ(guard.statistics().quarantined_blocks, 1u);
  const auto none = guard.allocate_raw(5_MiB, queue_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().number, 5_MiB);
}
TEST_F(guard_quarantine, an_overrun_by_work_that_was_queued_at_the_free_is_found_when_it_is_done) {
  support::gate g;
  unsigned char* const b = bytes_of(guard_.allocate_raw(100, queue_).value());
  g.hold(queue_);
  ASSERT_TRUE(queue_.fill(b, std::byte{5}, 101));
  guard_.free(b);
  EXPECT_EQ(guard_.check(), 0u);
  support::gate later;
  event done{device::host()};
  ASSERT_TRUE(queue_.record(done));
  later.hold(queue_);  // the stream has work for ever
  g.open();
  ASSERT_TRUE(done.synchronize());
  EXPECT_EQ(guard_.check(), 1u);
  EXPECT_EQ(told_.kinds, std::vector{mistake_kind::overrun_behind});
  later.open();
  ASSERT_TRUE(queue_.synchronize());  // the gates are used until then
}
TEST_F(guard_quarantine, a_block_freed_while_work_is_queued_is_neither_accused_nor_overwritten) {
  support::gate g;
  g.hold(queue_);
  unsigned char* const b = bytes_of(guard_.allocate_raw(100, queue_).value());
  std::vector<unsigned char> got(100);
  ASSERT_TRUE(queue_.fill(b, std::byte{5}, 100));
  ASSERT_TRUE(queue_.copy(got.data(), b, 100));
  guard_.free(b);
  EXPECT_EQ(guard_.check(), 0u);  // neither now
  g.open();
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_EQ(got, std::vector<unsigned char>(100, 5));
  EXPECT_EQ(guard_.check(), 0u);  // ... nor when it is done
  EXPECT_EQ(told_.kinds.size(), 0u);
}

}  // namespace
}  // namespace berth
