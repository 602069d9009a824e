#include "berth/trace/recorder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "berth/pool/pool.hpp"

namespace {
using berth::trace::recorder;

TEST(recorder, a_leak_has_its_file_and_line) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.report_leaks = false}};
  recorder r;
  r.start();
  void* const kept = p.allocate_raw(1000, queue).value();
  const auto line = static_cast<std::uint32_t>(__LINE__ - 1);
  { auto gone = p.allocate(500, queue); }
  r.stop();
  const auto leaks = r.leaks();
  ASSERT_EQ(leaks.size(), 1u);
  EXPECT_EQ(leaks[0].address, reinterpret_cast<std::uintptr_t>(kept));
  EXPECT_EQ(leaks[0].size, 1000u);
  EXPECT_EQ(leaks[0].site.line(), line);
  EXPECT_NE(r.leak_report().find("recorder_test.cpp:" + std::to_string(line)), std::string::npos);
  p.free(kept);
}

TEST(recorder, a_log_of_several_threads_can_be_read_back) {
  berth::pool p{berth::device::host()};
  recorder r;
  r.start();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&p] {
        berth::stream mine{berth::device::host()};
        for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(p.allocate(static_cast<berth::bytes>(1 + i % 5000), mine));
      });
    }
  }
  r.stop();
  EXPECT_EQ(r.dropped(), 0u);
  const auto log = berth::trace::parse_csv(berth::trace::to_csv(r.to_log()));
  ASSERT_TRUE(log);
  const auto s = berth::trace::summarize(*log);
  EXPECT_EQ(s.allocations, 30'000u);
  EXPECT_EQ(s.frees, 30'000u);
  EXPECT_EQ(s.unmatched_frees, 0u);
  EXPECT_TRUE(r.leaks().empty());
}

TEST(recorder, counts_what_it_drops) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host()};
  recorder r{100};
  r.start();
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(p.allocate(64, queue));
  r.stop();
  EXPECT_GT(r.dropped(), 10'000u);
  EXPECT_NE(r.leak_report().find("dropped"), std::string::npos);
}

TEST(log, a_bad_row_is_named) {
  const auto bad = berth::trace::parse_csv("ev,id,size,stream,thread,t_us\na,1,2,0,0,0\nx,1,2,0,0,0\n");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().number, 3u);
  EXPECT_FALSE(berth::trace::parse_csv("id,size\n"));
  EXPECT_FALSE(berth::trace::parse_csv(""));
}
}  // namespace
