// The texts of guards: neighbours, leaks, alarms.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "pool/guarded.hpp"

namespace berth {
namespace {
using namespace literals;
using namespace support;

using guard_text_death = stopping_guard;

TEST_F(guard_text_death, the_neighbours_are_named) {
  unsigned char* const below = take(100);
  unsigned char* const b = take(100);
  unsigned char* const above = take(100);
  unsigned char* const middle = std::max(std::min(below, b), std::min(std::max(below, b), above));
  middle[100] = 1;
  EXPECT_DEATH(guard_.free(middle), "below: block of 100 bytes at .*guard_text_test.cpp:.*above: block of 100 bytes");
  middle[100] = 0xfd;
}

// --- leaks

TEST_F(guard_text_death, leaks_are_told_by_the_place_that_asked) {
  told t;
  {
    guard_adaptor guard{pool_, {.on_mistake = t.callback()}};
    (void)guard.allocate_raw(100, queue_);
  }
  ASSERT_EQ(t.kinds, std::vector{mistake_kind::leak});
  EXPECT_EQ(t.lines[0], static_cast<std::uint32_t>(__LINE__ - 3));
}
TEST_F(guard_text_death, what_a_thread_leaves_behind_is_told_with_the_thread) {
  told t;
  {
    guard_adaptor guard{pool_, {.on_mistake = t.callback()}};
    std::thread{[&] { (void)guard.allocate_raw(100, queue_); }}.join();
    const auto live = guard.live_by_site();
    ASSERT_EQ(live.size(), 1u);
    EXPECT_EQ(live[0].blocks, 1u);
    EXPECT_NE(live[0].thread, 0u);
  }
  ASSERT_EQ(t.kinds, std::vector{mistake_kind::leak});
  EXPECT_NE(t.texts[0].find("thread "), std::string::npos);
}
[[gnu::noinline]] void* ask_for_one(memory_source& m, stream& queue) {
  void* const b = m.allocate_raw(100, queue, source_location::current("same.cpp", 1)).value();
  asm volatile("" : : "r"(b) : "memory");
  return b;
}
// One place that two callers reach: two leaks, each with its stack.
TEST(guard_text, leaks_are_told_by_place_and_stack) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  told t;
  {
    guard_adaptor guard{p, {.on_mistake = t.callback(), .stack_depth = 4}};
    const volatile int three = 3;  // else the loop may become three calls
    for (int i = 0; i < three; ++i) (void)ask_for_one(guard, queue);
    (void)ask_for_one(guard, queue);
    ASSERT_EQ(guard.live_by_site().size(), 2u);
  }
  ASSERT_EQ(t.kinds.size(), 2u);
  EXPECT_NE(t.texts[0].find("leak: 3 blocks, 300 bytes, asked for at same.cpp:1"), std::string::npos) << t.texts[0];
  EXPECT_NE(t.texts[1].find("leak: 1 block, 100 bytes, asked for at same.cpp:1"), std::string::npos) << t.texts[1];
  for (const std::string& text : t.texts) EXPECT_NE(text.find(", by "), std::string::npos) << text;
  EXPECT_GE(times(t.texts[0], " < "), 1u) << t.texts[0];
  EXPECT_LE(times(t.texts[0], " < "), 3u) << t.texts[0];
}

// --- alarms

TEST(guard_text, an_alarm_is_told_once) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  guard_adaptor guard{p, {.live_alarm = 2}};
  testing::internal::CaptureStderr();
  const auto kept = guard.allocate(100, queue).value();
  for (int i = 0; i < 3; ++i) guard.free(guard.allocate_raw(100, queue).value());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(times(said, "2 blocks are alive, 200 bytes"), 1u) << said;
}
TEST(guard_text, bytes_and_ages_have_alarms_too) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  guard_adaptor guard{p, {.bytes_alarm = 250, .age_alarm = std::chrono::milliseconds{1}}};
  testing::internal::CaptureStderr();
  const auto kept = guard.allocate(100, queue).value();
  const std::string place = at_line(__LINE__ - 1);
  for (int i = 0; i < 3; ++i) guard.free(guard.allocate_raw(151, queue).value());
  // The clock goes on by itself.
  std::string said;
  for (int i = 0; i < 100'000'000 && said.find("the oldest") == std::string::npos; ++i) {
    guard.free(guard.allocate_raw(1, queue).value());
    if (i % 1000 != 0) continue;
    said += testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
  }
  for (int i = 0; i < 1000; ++i) guard.free(guard.allocate_raw(1, queue).value());
  said += testing::internal::GetCapturedStderr();
  EXPECT_EQ(times(said, "2 blocks are alive, 251 bytes"), 1u) << said;
  EXPECT_EQ(times(said, "of 2 live blocks the oldest is the block of 100 bytes"), 1u) << said;
  EXPECT_NE(said.find(place), std::string::npos);
}
// Longer than the clock counts.
TEST(guard_text, no_block_is_as_old_as_the_longest_ages) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  for (const std::chrono::milliseconds age : {std::chrono::milliseconds::max(), std::chrono::milliseconds{1LL << 58}}) {
    guard_adaptor guard{p, {.age_alarm = age}};
    testing::internal::CaptureStderr();
    for (int i = 0; i < 3; ++i) guard.free(guard.allocate_raw(100, queue).value());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

}  // namespace
}  // namespace berth
