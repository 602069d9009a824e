#include "berth/core/hook.hpp"

#include <gtest/gtest.h>

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
}  // namespace
