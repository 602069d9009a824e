#include "berth/core/hook.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace {
TEST(hook, hears_events_while_it_is_set) {
  std::vector<berth::memory_event> heard;
  const berth::hook ear{[](void* context, const berth::memory_event& event) noexcept {
                          static_cast<std::vector<berth::memory_event>*>(context)->push_back(event);
                        },
                        &heard};
  berth::emit({.kind = berth::memory_event_kind::pool_allocate, .size = 1});
  const berth::hook* before = berth::set_hook(&ear);
  EXPECT_TRUE(berth::hook_is_set());
  berth::emit({.kind = berth::memory_event_kind::pool_allocate, .size = 2});
  EXPECT_EQ(berth::set_hook(before), &ear);
  berth::emit({.kind = berth::memory_event_kind::pool_allocate, .size = 3});
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].size, 2u);
}

TEST(hook, a_thread_with_a_buffer_of_the_listener_is_asked_only_when_it_is_full) {
  int called = 0;
  berth::event_buffer mine;
  berth::detail::thread_directory<berth::event_buffer> buffers;
  const berth::hook ear{[](void* context, const berth::memory_event&) noexcept { ++*static_cast<int*>(context); },
                        &called, &buffers};
  berth::event_record records[2];
  mine.at = records;
  mine.limit = records + 2;
  const berth::hook* before = berth::set_hook(&ear);
  berth::emit({.kind = berth::memory_event_kind::pool_free, .size = 1});  // no buffer yet
  EXPECT_EQ(called, 1);
  ASSERT_TRUE(buffers.add(&mine));
  std::jthread{[] { berth::emit({.kind = berth::memory_event_kind::pool_free, .size = 1}); }}.join();
  EXPECT_EQ(called, 2);
  berth::emit({.kind = berth::memory_event_kind::device_free, .size = 2});  // not kept
  EXPECT_EQ(called, 3);
  const auto line = static_cast<std::uint32_t>(__LINE__ + 1);
  const auto here = berth::source_location::current();
  berth::emit(
      {.kind = berth::memory_event_kind::pool_allocate, .stream = 5, .address = &called, .size = 3, .site = here});
  berth::emit({.kind = berth::memory_event_kind::pool_free, .size = 4});
  EXPECT_EQ(called, 3);
  berth::emit({.kind = berth::memory_event_kind::pool_free, .size = 5});
  EXPECT_EQ(called, 4);
  (void)berth::set_hook(before);
  EXPECT_EQ(mine.at.load(), records + 2);
  EXPECT_EQ(records[0].kind(), berth::event_record::allocate);
  EXPECT_EQ(records[0].size(), 3u);
  EXPECT_EQ(records[0].stream, 5u);
  EXPECT_EQ(records[0].line, line);
  EXPECT_EQ(records[0].address, reinterpret_cast<std::uintptr_t>(&called));
  EXPECT_EQ(records[1].kind(), berth::event_record::free);
}
}  // namespace
