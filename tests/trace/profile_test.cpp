#include "berth/trace/profile.hpp"

#include <gtest/gtest.h>

#include <random>

namespace berth::trace {
namespace {

TEST(profile, spreads_are_by_nearest_rank) {
  std::vector<double> none;
  EXPECT_EQ(spread_of(none).count, 0u);
  std::vector<double> values;
  for (int i = 200; i > 0; --i) values.push_back(i);
  const spread s = spread_of(values);
  EXPECT_EQ(s.count, 200u);
  EXPECT_EQ(s.p50, 100);
  EXPECT_EQ(s.p99, 198);
  EXPECT_EQ(s.max, 200);
  std::vector<double> one{7};
  EXPECT_EQ(spread_of(one).p50, 7);
  EXPECT_EQ(spread_of(one).p99, 7);
}

TEST(profile, classes_and_streams) {
  const log l{{.stream = 1, .id = 1, .size = 64, .t_us = 0},
              {.stream = 1, .id = 2, .size = 65, .t_us = 1},
              {.stream = 2, .id = 3, .size = 128, .t_us = 2},
              {.allocate = false, .id = 2, .t_us = 11},
              {.allocate = false, .id = 99, .t_us = 12},
              {.stream = 2, .id = 4, .size = 0, .t_us = 13},
              {.stream = 2, .id = 5, .size = max_bytes, .t_us = 14}};
  const profile p = profile_of(l);
  ASSERT_EQ(p.sizes.size(), 3u);
  EXPECT_EQ(p.sizes[0].up_to, 64u);
  EXPECT_EQ(p.sizes[0].allocations, 2u);
  EXPECT_EQ(p.sizes[1].up_to, 128u);
  EXPECT_EQ(p.sizes[1].allocations, 2u);
  EXPECT_EQ(p.sizes[1].frees, 1u);
  EXPECT_EQ(p.sizes[1].live_peak, 193u);
  EXPECT_EQ(p.sizes[1].lifetime_us.max, 10);
  EXPECT_EQ(p.sizes[2].up_to, max_bytes);
  ASSERT_EQ(p.streams.size(), 2u);
  EXPECT_EQ(p.streams[0].stream, 1u);
  EXPECT_EQ(p.streams[0].live_peak, 129u);
  EXPECT_EQ(p.lifetime_us.count, 1u);
}

// The classes together are the log, whatever it is.
TEST(profile, sums_are_those_of_the_log) {
  std::mt19937 random{3};
  log l;
  std::vector<std::uint64_t> live;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    if (live.empty() || random() % 2 == 0) {
      l.push_back({.stream = static_cast<std::uint32_t>(random() % 3),
                   .id = i,
                   .size = random() % 100'000,
                   .t_us = static_cast<double>(i)});
      live.push_back(i);
    } else {
      std::swap(live[random() % live.size()], live.back());
      l.push_back({.allocate = false, .id = live.back(), .t_us = static_cast<double>(i)});
      live.pop_back();
    }
  }
  const profile p = profile_of(l);
  const log_summary s = summarize(l);
  std::uint64_t allocations = 0, frees = 0, by_stream = 0;
  for (const size_class& c : p.sizes) allocations += c.allocations, frees += c.frees;
  for (const stream_profile& one : p.streams) by_stream += one.allocations;
  EXPECT_EQ(allocations, s.allocations);
  EXPECT_EQ(by_stream, s.allocations);
  EXPECT_EQ(frees, s.frees);
  EXPECT_EQ(p.size.count, s.allocations);
}

TEST(profile, open_metrics) {
  const log l{{.stream = 1, .id = 1, .size = 64, .t_us = 0}, {.stream = 1, .id = 2, .size = 100, .t_us = 1}};
  pool_statistics s;
  s.allocations = 7;
  s.flushes = 3;
  const std::string text = to_open_metrics(profile_of(l), s);
  for (const char* line :
       {"# TYPE berth_allocation_size_bytes histogram\n", "berth_allocation_size_bytes_bucket{le=\"64\"} 1\n",
        "berth_allocation_size_bytes_bucket{le=\"128\"} 2\n", "berth_allocation_size_bytes_bucket{le=\"+Inf\"} 2\n",
        "berth_allocation_size_bytes_sum 164\n", "berth_stream_allocations_total{stream=\"1\"} 2\n",
        "berth_pool_flushes_total 3\n", "berth_pool_allocations_total 7\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_TRUE(text.ends_with("# EOF\n"));
  EXPECT_EQ(text.find("berth_allocate_seconds"), std::string::npos);
  latency_histogram took;
  for (int i = 0; i < 200; ++i) took.add(i < 199 ? 7 : 4000);
  const std::string timed = to_open_metrics({}, std::nullopt, &took, &took);
  for (const char* line :
       {"# TYPE berth_allocate_seconds summary\n", "# UNIT berth_allocate_seconds seconds\n",
        "berth_allocate_seconds{quantile=\"0.5\"} 7e-09\n", "berth_allocate_seconds{quantile=\"0.99\"} 7e-09\n",
        "berth_allocate_seconds{quantile=\"1\"} 4e-06\n", "berth_free_seconds_count 200\n"}) {
    EXPECT_NE(timed.find(line), std::string::npos) << line << timed;
  }
  EXPECT_EQ(to_open_metrics(profile_of({})).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace berth::trace
