// Writes before and behind blocks, each found with the right place.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "berth/pool/adaptors.hpp"
#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "pool/guarded.hpp"

namespace berth {
namespace {
using namespace literals;
using namespace support;

using guard_zones_death = stopping_guard;

TEST_F(guard_zones_death, one_byte_behind) {
  unsigned char* const b = take(100);
  const int line = __LINE__ - 1;
  b[100] = 0x41;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 100 of the block of 100 bytes at .*" +
                                                   at_line(line) + ".*is 0x41 instead of 0xfd"));
  b[100] = 0xfd;
}
TEST_F(guard_zones_death, one_byte_before) {
  unsigned char* const b = take(100);
  b[-1] = 0x41;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun before: byte -1 of the block of 100 bytes"));
  b[-1] = 0xfd;
}
TEST_F(guard_zones_death, a_whole_zone_before) {
  unsigned char* const b = take(64);
  std::memset(b - 64, 0, 64);
  EXPECT_DEATH(guard_.free(b, 64, queue_), stops(__LINE__, "overrun before: byte -64"));
  std::memset(b - 64, 0xfd, 64);
}
TEST_F(guard_zones_death, the_last_byte_of_the_zone_behind) {
  unsigned char* const b = take(1);
  b[64] = 0;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 64 of the block of 1 bytes"));
  b[64] = 0xfd;
}
TEST_F(guard_zones_death, an_overrun_by_a_fill_of_the_stream) {
  unsigned char* const b = take(1000);
  ASSERT_TRUE(queue_.fill(b, std::byte{7}, 1001));
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 1000 .*is 0x07"));
  b[1000] = 0xfd;
}
TEST_F(guard_zones_death, an_overrun_by_a_copy_of_the_stream) {
  unsigned char* const b = take(256);
  const std::vector<unsigned char> from(300, 9);
  ASSERT_TRUE(queue_.copy(b, from.data(), 300));
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 256 .*is 0x09"));
  std::memset(b + 256, 0xfd, 44);
}
TEST_F(guard_zones_death, an_overrun_by_another_stream) {
  unsigned char* const b = take(256);
  guard_.use_on(b, other_).value();
  ASSERT_TRUE(other_.fill(b + 200, std::byte{1}, 57));
  ASSERT_TRUE(other_.synchronize());
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 256"));
  b[256] = 0xfd;
}
TEST_F(guard_zones_death, an_overrun_of_a_live_block_by_check) {
  unsigned char* const b = take(33);
  b[33] = 1;
  EXPECT_DEATH(guard_.check(), stops(__LINE__, "overrun behind: byte 33"));
  b[33] = 0xfd;
  guard_.free(b);
}
TEST_F(guard_zones_death, an_overrun_of_an_aligned_block) {
  unsigned char* const b = bytes_of(guard_.allocate_raw(100, queue_, {.alignment = 4096}).value());
  EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(b), 4096));
  b[-1] = 1;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun before: byte -1"));
  b[-1] = 0xfd;
}
TEST_F(guard_zones_death, an_overrun_of_an_owned_block_that_goes_out_of_scope) {
  auto b = guard_.allocate(10, queue_).value();
  const int line = __LINE__ - 1;
  bytes_of(b.data())[10] = 1;
  EXPECT_DEATH(b.reset(), stops(line, "overrun behind: byte 10"));
  bytes_of(b.data())[10] = 0xfd;
}
TEST_F(guard_zones_death, an_overrun_in_pinned_memory) {
  pool pinned{host_, {.kind = memory_kind::pinned, .limit = 1_MiB, .report_leaks = false}};
  guard_adaptor guard{pinned, {.leaks = false}};
  unsigned char* const b = bytes_of(guard.allocate_raw(100, queue_).value());
  b[100] = 1;
  EXPECT_DEATH(guard.free(b), stops(__LINE__, "overrun behind: byte 100"));
  b[100] = 0xfd;
  guard.free(b);
}
TEST_F(guard_zones_death, an_overrun_around_a_stack_of_adaptors) {
  limit_adaptor limited{pool_, 1_MiB};
  guard_adaptor guard{limited, {.leaks = false}};
  unsigned char* const b = bytes_of(guard.allocate_raw(100, queue_).value());
  b[100] = 1;
  EXPECT_DEATH(guard.free(b), stops(__LINE__, "overrun behind: byte 100"));
  b[100] = 0xfd;
  guard.free(b);
}

}  // namespace
}  // namespace berth
