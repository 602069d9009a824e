#include "berth/trace/snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {
using berth::trace::alive;
using berth::trace::event;
using berth::trace::measure;
using berth::trace::snapshot;
using berth::trace::to_json;
using testing::HasSubstr;

snapshot two_events() {
  snapshot s{.ended = true, .sites = {{"a.cpp", 7}}};
  s.events.push_back({.stream = 2, .thread = 1, .site = 1, .address = 4096, .size = 100, .t_us = 0.5});
  s.events.push_back({.allocate = false, .stream = 2, .thread = 1, .address = 4096, .size = 100, .t_us = 1.25});
  return s;
}

TEST(snapshot, is_written_as_documented) {
  EXPECT_EQ(to_json(two_events()),
            "{\"format\":\"berth-snapshot/1\",\"ended\":true,\"forgotten\":0,\"dropped\":0,\n"
            "\"pool\":null,\n\"device\":null,\n\"allocation\":null,\n"
            "\"sites\":[[\"a.cpp\",7]],\n"
            "\"events\":[\n[\"a\",4096,100,2,1,0.500,1],\n[\"f\",4096,100,2,1,1.250,0]]}\n");
}

TEST(snapshot, statistics_go_by_their_names) {
  snapshot s;
  s.pool.emplace().reserved_peak = 11;
  s.device.emplace().staged_bytes = 12;
  s.allocation = {3, 0.5, 2};
  const std::string text = to_json(s);
  EXPECT_THAT(text, HasSubstr("\"reserved_peak\":11,"));
  EXPECT_THAT(text, HasSubstr("\"staged_bytes\":12}"));
  EXPECT_THAT(text, HasSubstr("{\"count\":3,\"mean_us\":0.500,\"longest_us\":2.000}"));
}

TEST(snapshot, a_path_cannot_leave_its_string) {
  snapshot s;
  s.sites = {{"a\"],\n\xFF", 1}};
  EXPECT_THAT(to_json(s), HasSubstr("[[\"a\\\"],\\u000a\\ufffd\",1]]"));
}

TEST(snapshot, alive_is_what_no_free_follows) {
  snapshot s = two_events();
  EXPECT_TRUE(alive(s).empty());
  s.events.push_back({.site = 1, .address = 4096, .size = 7});
  s.events.push_back({.site = 1, .address = 64, .size = 8});
  ASSERT_EQ(alive(s).size(), 2u);
  EXPECT_EQ(alive(s)[0].size, 7u);
  EXPECT_EQ(alive(s)[1].size, 8u);
}

TEST(snapshot, nothing_is_measured_where_nothing_happened) {
  snapshot s;
  s.pool.emplace();
  s.device.emplace();
  s.allocation.emplace();
  const auto idle = measure(s);
  EXPECT_FALSE(idle.allocation_us || idle.fragmentation || idle.pool_hits || idle.zero_copy);
  s.pool->allocations = 10;
  s.pool->device_hits = 1;
  s.pool->live_peak = 10;
  s.pool->reserved_peak = 100;
  s.pool->reserved = 100;
  s.pool->unusable = 20;
  EXPECT_FALSE(measure(s).fragmentation);  // written before pools measured it
  s.pool->largest_request = 30;
  s.device->direct_bytes = 1;
  s.device->staged_bytes = 3;
  s.allocation = {4, 1.5, 3};
  const auto m = measure(s);
  EXPECT_DOUBLE_EQ(*m.allocation_us, 1.5);
  EXPECT_DOUBLE_EQ(*m.fragmentation, 0.2);
  EXPECT_DOUBLE_EQ(*m.pool_hits, 0.9);
  EXPECT_DOUBLE_EQ(*m.zero_copy, 0.25);
  s.failed.emplace().at = *s.pool;
  s.failed->at.unusable = 50;
  EXPECT_DOUBLE_EQ(*measure(s).fragmentation, 0.5);
}

TEST(snapshot, has_the_options_and_the_last_failure_of_a_pool) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.limit = 1 << 20, .initial = 1 << 20, .stitch = false, .report_leaks = false}};
  snapshot s;
  add(s, p);
  EXPECT_TRUE(s.pool && s.options && s.device && !s.failed);
  EXPECT_FALSE(p.allocate_raw(2 << 20, queue));
  add(s, p);
  const std::string text = to_json(s);
  EXPECT_THAT(text, HasSubstr("\"options\":{\"limit\":1048576,\"initial\":1048576,"));
  EXPECT_THAT(text, HasSubstr("\"stitch\":false,"));
  EXPECT_THAT(text, HasSubstr("\"failed\":{\"size\":2097152,\"pool\":{\"live\":0,"));
}
}  // namespace
